"""Redaction: what may leave the cluster in a recording. Everything not named here as kept is left out or masked.

The narrow models leave out secrets, managed fields and the sources of env and volumes, since they never decode them.
Free text that they do hold is handled here: env values, annotations, command lines, config files, messages and logs.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any, cast

import msgspec

from bot.kube.hami_pods import (
    COMPONENT_LABEL,
    EXTENDER_CONTAINER,
    KUBE_SCHEDULER_CONTAINER,
    PLUGIN_COMPONENT,
    SCHEDULER_COMPONENT,
    is_pod_of_hami,
)
from bot.kube.models import ConfigMap, Resource

MASK = "***"

HAMI_COMPONENTS = frozenset({SCHEDULER_COMPONENT, PLUGIN_COMPONENT})
_HAMI_CONTAINERS = frozenset({EXTENDER_CONTAINER, KUBE_SCHEDULER_CONTAINER, "device-plugin", "vgpu-monitor"})

DEVICE_CONFIG = "device-config.yaml"
_CONFIG_KEYS = frozenset({DEVICE_CONFIG, "config.yaml", "config.json"})

_OUR_RECORDS = "hami-bot.io/"

_OPEN_VARIABLES = re.compile(
    r"CUDA_DISABLE_CONTROL|CUDA_DEVICE_(?:MEMORY|SM)_LIMIT(?:_\d+)?|CUDA_OVERSUBSCRIBE|CUDA_TASK_PRIORITY"
    r"|CUDA_VISIBLE_DEVICES|LIBCUDA_LOG_LEVEL|GPU_CORE_UTILIZATION_POLICY|ACTIVE_OOM_KILLER|LD_PRELOAD|HOOK_PATH|NODE_NAME"
    r"|NVIDIA_(?:VISIBLE_DEVICES|DRIVER_CAPABILITIES|DISABLE_REQUIRE)|PASS_DEVICE_SPECS|DP_(?:EN|DIS)ABLE_HEALTHCHECKS"
)
"""Variables that HAMi, HAMi-core or NVIDIA's runtime read and whose values are kept; others keep their name only."""

NEVER_STARTED = frozenset({"StartError", "ContainerCannotRun"})
"""Reasons in a status by which runtimes tell that a container never started; its message is then the runtime's."""

_KEPT_ANNOTATIONS = (
    "hami.io/",
    "volcano.sh/",
    "4pd.io/",
    _OUR_RECORDS,
    "predicate-time",
    "predicate-node",
    "assigned-containers",
    "kubernetes.io/",
    "scheduling.",
    "deployment.kubernetes.io/revision",
    "meta.helm.sh/",
)

_SENSITIVE = (
    r"(?:token|passw(?:or)?d|passphrase|(?<![a-z])(?:pass|pwd)|secret|(?:api|access|private)[_-]?key|credential)s?"
)
_SECRET_FLAG = re.compile(r"token|pass|pwd|secret|key|credential", re.IGNORECASE)
_PATH_FLAG = re.compile(r"(?:file|path|dir)$", re.IGNORECASE)
_FLAG = re.compile(r"(--?[\w.-]+)(?:(=).*)?", re.DOTALL)

# Quoted (JSON inside JSON, JSON, single quotes; events are cut at 1 KiB, so the end may be missing), or one bare word.
_QUOTED = r"""\\"(?:(?!\\")[^\n])*(?:\\")?|"(?:[^"\\\n]|\\.)*"?|'[^'\n]*'?"""
_UNMASKED = r"""(?!\*{3}(?:[\s"'\\,;&})\]]|$))"""
_VALUE = rf"""{_UNMASKED}(?:{_QUOTED}|[^\s"'\\,;&(){{}}\[\]<>][^\s"'\\,;&]*)"""

_PEM = re.compile(
    r"-----BEGIN [^-\n]{1,40}-----"
    r"(?:(?:(?!-----BEGIN)[\s\S]){0,16384}?-----END [^-\n]{1,40}-----|(?:[\w+/=\s]|\\[nrt])*)"
)


def _if_found(found: re.Match[str]) -> str:
    return f"{found[1]}{MASK}" if found[1] is not None else found[0]


# Each takes time in proportion to the text, whatever stands there. Where a run of characters could be tried from each
# of them, the pattern takes the whole run (`*+`, `++`), and `_if_found` leaves it as it was.
_RULES: tuple[tuple[tuple[str, ...], re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (
        ("last-applied",),
        re.compile(rf"(last-applied-configuration[\\\"']*\s*[:=]\s*)(?!\{{\}}){_UNMASKED}(?:{_QUOTED}|[^\n]*)"),
        rf"\1{MASK}",
    ),
    (
        ("value",),
        re.compile(rf"(\\?\"name\\?\"\s*:\s*\\?\"[^\"\\]*\\?\"\s*,\s*\\?\"value\\?\"\s*:\s*){_UNMASKED}(?:{_QUOTED})"),
        rf"\1{MASK}",
    ),
    (("valuefrom",), re.compile(r"(\bName:[\w.-]+[, ]Value:).*?(?=[, ]ValueFrom:|$)", re.MULTILINE), rf"\1{MASK}"),
    (
        ("authorization",),
        re.compile(rf"(authorization[\\\"']*\s*[:=]\s*)(?:(?:basic|bearer|negotiate)\s+)?{_VALUE}", re.IGNORECASE),
        rf"\1{MASK}",
    ),
    (("bearer",), re.compile(r"\b(bearer\s+)(?!tokens?\b)[\w.~+/=-]+", re.IGNORECASE), rf"\1{MASK}"),
    (
        ("token", "pass", "pwd", "secret", "key", "credential"),
        re.compile(rf"({_SENSITIVE}\\?[\"']?\s*[=:]\s*){_VALUE}", re.IGNORECASE),
        rf"\1{MASK}",
    ),
    (
        ("--",),
        re.compile(rf"(--[\w-]*?{_SENSITIVE}\s+)(?!-){_VALUE}|--[\w-]*+", re.IGNORECASE),
        _if_found,
    ),
    (("://",), re.compile(r"(://)[^\s/\"'<>]+@"), rf"\1{MASK}@"),
    (("cookie",), re.compile(r"(\bcookie:\s*)[^\n]+", re.IGNORECASE), rf"\1{MASK}"),
    (("hooks.slack.com",), re.compile(r"(hooks\.slack\.com/)[\w/-]+", re.IGNORECASE), rf"\1{MASK}"),
    (("sig=",), re.compile(r"(\bsig=)[^&\s\"']+", re.IGNORECASE), rf"\1{MASK}"),
    (("eyj",), re.compile(r"()\beyJ[\w-]{5,}+\.[\w-]+(?:\.[\w-]*)?|\beyJ[\w-]++"), _if_found),
    (("akia", "asia"), re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"), MASK),
    (
        ("gh", "glpat-", "xox", "hf_", "sk-", "aiza"),
        re.compile(
            r"\b(?:gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abeoprs]-[\w-]{10,}|hf_[A-Za-z0-9]{20,}"
            r"|sk-[A-Za-z0-9]{20,}|AIza[\w-]{30,})"
        ),
        MASK,
    ),
)


def masked(text: str, longest: int | None = None) -> str:
    """The text with everything masked that looks like a credential. With `longest` the result is cut to so many
    characters, and only twice as many of the text are searched.
    """
    if longest is not None:
        start = text[: 2 * longest]
        if start != text:  # up to the last word that is whole: half a credential may not look like one
            start = start[: max(start.rfind(character) for character in " \t\n\"'<>/") + 1] or start
        return masked(start)[:longest]
    text = _PEM.sub(MASK, text) if "-----BEGIN" in text else text
    lowered = text.lower()
    for words, pattern, replacement in _RULES:
        if any(word in lowered for word in words):
            text = pattern.sub(replacement, text)
    return text


def masked_log(lines: Iterable[str]) -> str:
    """A log of these lines with credentials masked (a private key may span several), each line ended."""
    text = "".join(f"{line}\n" for line in lines)
    text = _PEM.sub(MASK, text) if "-----BEGIN" in text else text
    return "".join(map(masked, text.splitlines(keepends=True)))


def redacted(item: Resource, annotations: tuple[str, ...] = ()) -> dict[str, Any]:
    """The object as JSON builtins under the API's names, redacted; `annotations`: beginnings of more keys to keep."""
    value = _redacted(msgspec.to_builtins(item), (*_KEPT_ANNOTATIONS, *annotations), of_hami=False)
    if isinstance(item, ConfigMap) and item.data is not None:
        kept = _CONFIG_KEYS if item.metadata.label(COMPONENT_LABEL) in HAMI_COMPONENTS else frozenset({DEVICE_CONFIG})
        value["data"] = {key: masked(text) for key, text in item.data.items() if key in kept}
    return value


def _redacted(value: Any, annotations: tuple[str, ...], *, of_hami: bool) -> Any:
    """`of_hami`: the value is in a pod, or a pod template, of HAMi's own; only those show their command lines."""
    if isinstance(value, list):
        return [_redacted(item, annotations, of_hami=of_hami) for item in value]  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, Any]", value)
    if containers := fields.get("spec", {}).get("containers"):
        names = {container.get("name", "") for container in containers}
        of_hami = is_pod_of_hami(fields.get("metadata", {}).get("labels"), names)
    kept: dict[str, Any] = {}
    for key, field in fields.items():
        if key == "annotations":
            kept[key] = {
                name: masked_record(text) if name.startswith(_OUR_RECORDS) else masked(text)
                for name, text in field.items()
                if name.startswith(annotations)
            }
        elif key in ("command", "args"):
            if of_hami and fields.get("name") in _HAMI_CONTAINERS:
                kept[key] = masked_arguments(field)
        elif key == "value" and set(fields) == {"name", "value"}:
            kept[key] = masked(field) if _OPEN_VARIABLES.fullmatch(fields.get("name", "")) else MASK
        elif key in ("message", "url"):
            kept[key] = masked(field)
        elif key == "caBundle":
            kept[key] = MASK
        elif key == "terminated" and isinstance(field, dict):
            kept[key] = _ended(cast("dict[str, Any]", field), of_hami=of_hami)
        elif key == "labels":
            kept[key] = field
        else:
            kept[key] = _redacted(field, annotations, of_hami=of_hami)
    return kept


def _ended(terminated: dict[str, Any], *, of_hami: bool) -> dict[str, Any]:
    """Drops a user program's last words, which may hold any secret; without a start they are the runtime's own."""
    if of_hami or terminated.get("reason") in NEVER_STARTED:
        return terminated | ({"message": masked(terminated["message"])} if "message" in terminated else {})
    return {name: value for name, value in terminated.items() if name != "message"}


def masked_record(text: str) -> str:
    """The record of a temporary change, masked: its command lines may have secrets as words beside their flags."""
    try:
        record = msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return masked(text)
    lines = {name: masked_arguments(text) for name, text in record.items() if _is_words(text)}
    return masked(msgspec.json.encode(record | lines).decode() if lines else text)


def _is_words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in cast("list[Any]", value))


def masked_arguments(arguments: list[str]) -> list[str]:
    """A command line, masked: values of flags that are named like secrets, and what looks like a credential."""
    kept: list[str] = []
    secret_follows = False
    for argument in arguments:
        flag = _FLAG.fullmatch(argument)
        if secret_follows and not flag:
            kept.append(MASK)
            secret_follows = False
            continue
        secret = bool(flag and _SECRET_FLAG.search(flag[1]) and not _PATH_FLAG.search(flag[1]))
        secret_follows = secret and flag is not None and not flag[2]
        kept.append(f"{flag[1]}={MASK}" if flag and secret and flag[2] else masked(argument))
    return kept
