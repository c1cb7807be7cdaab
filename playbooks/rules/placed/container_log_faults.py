"""Faults inside a GPU container by its own log: HAMi-core's words, the dynamic loader's and the CUDA libraries'."""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from bot.hami.pods.allocations import given as given_by_hami
from bot.hami.pods.allocations import is_finished
from bot.hami.signatures import CORE_HEADER, Hit, find, signatures
from bot.kube.models import ContainerStatus, Pod
from bot.kube.times import parse_time
from bot.report import Evidence, Finding, Gap
from bot.texts import Text, sentences
from playbooks import quotes
from playbooks.gather.node_side import LogSeen, is_monitor
from playbooks.gather.pods import asks_for_devices
from playbooks.rule import rule
from playbooks.rules.common import prose
from playbooks.rules.common.containers import in_trouble, path_in, statuses
from playbooks.rules.common.findings import finding
from playbooks.rules.common.signature_findings import fix_of, log_line
from playbooks.rules.placed.container_faults import given, is_limited
from playbooks.rules.placed.hami_core import FIRST_WITHOUT_CRASHES, library_of, library_told, paths_told
from playbooks.rules.waiting import volcano
from playbooks.scenes.placed_pod import PlacedScene

_CORE_LINE = re.compile(CORE_HEADER)
_INITIALIZED = re.compile(CORE_HEADER + r"Initialized")
_AMOUNTS = re.compile(r"OOM (\d+) / (\d+)")
_MIB = 1024 * 1024
_AFTER = 5
"""Other threads may print this much behind the last words of a process that waits or fails."""
_OF_LIMIT = ("core-torch-oom", "core-kv-cache")
"""Other programs' words, of any GPU that is full: they count where the container has a limit."""
_ONLY_AT_AN_END = ("core-no-gpu-seen", *_OF_LIMIT)
"""Words after which a program may go on without a GPU, or with less memory."""
_UNSURE = ("core-preload-class", "core-no-platform", "core-starting", "core-nccl-start", "core-worker-died", *_OF_LIMIT)
"""Words that have other causes too: the loader says the first also in a 32-bit helper beside a program that loads
HAMi-core.
"""
_TOTAL = re.compile(r"([\d.]+) GiB(?: total capacity|$)")
_GIB_IN_MIB = 1024
_ROUNDING = 0.01
"""In GiB: PyTorch gives two digits."""
_OPENS_QUOTE = re.compile(r"""(?<![:=])(?<!": )(?<!=[bru])["'`\u201c\u2018]$""")
"""At the end of what precedes words that somebody quotes; the value of a field (`msg="…`, `"msg": "…`) is no quote."""
_NO_ERROR = re.compile(r"\b(INFO|DEBUG|TRACE)\b|\blevel\W{1,4}(info|debug|trace)\b")
"""In what precedes words of a line that its own logger does not call an error."""
_NCCL = "core-nccl-start"
_STANDS_STILL = timedelta(minutes=3)
"""After so long without a word a start hangs: HAMi-core takes seconds, NCCL on several GPUs half a minute."""
_GPU_FULL, _ALL_GPUS = "core-gpu-full", "NVIDIA_VISIBLE_DEVICES"
_MOST_OTHERS = 2
_SURE = 3
"""A wait that is told once or twice is how processes start beside each other."""
_OF_LIBRARY = {"hami-core-crash": library_told, "hami-core-hang": library_told, "hami-core-missing": paths_told}
"""What is added about HAMi-core itself."""


class _Word(NamedTuple):
    """A signature found in a log, and what the container of that log is doing."""

    hit: Hit
    log: LogSeen
    status: ContainerStatus


@rule(
    *("hami-core-crash", "hami-core-hang", "hami-core-missing", "gpu-memory-limit", "limit-not-enforced"),
    *("gpu-start-failure", "gpu-runtime-missing", "driver-not-loaded", "card-fault"),
    reads=("install",),
)
def own_log_fault(scene: PlacedScene) -> Iterator[Finding]:
    """A container's own log says what is wrong in it: the fault that explains most."""
    by_name = {status.name: status for status in statuses(scene.pod)}
    words = [
        _Word(hit, log, by_name[log.container])
        for log in scene.own_logs or ()
        if log.container in by_name and (not log.previous or in_trouble(by_name[log.container], scene.now))
        for hit in find("workload-log", log.lines)
    ]
    order = [signature.id for signature in signatures()]
    meant = [word for word in words if _means_it(word, scene.now) and _concerns(word, scene)]
    meant.sort(key=lambda word: (order.index(word.hit.signature.id), word.log.previous))
    if meant:
        yield _finding(scene, meant)


def _concerns(word: _Word, scene: PlacedScene) -> bool:
    """Whether the words can be about what the pod's containers have of GPUs."""
    match word.hit.signature.id:
        case "core-host-pid":
            return scene.once(given).cores
        case "core-no-gpu-seen":
            return _has_gpus(scene)
        case "core-torch-oom":
            return _limit_seen(word, scene) is not None
        case "core-kv-cache":
            return bool(_limits_mib(scene))
        case "core-starting":
            return _stands_still(word, scene.now)
        case "core-nccl-start":
            return len(scene.once(given).shares) > 1 and _stands_still(word, scene.now)
        case "core-worker-died":
            library = library_of(scene.plugins)
            return len(scene.once(given).shares) > 1 and library is not None and library.version < FIRST_WITHOUT_CRASHES
        case _:
            return True


def _stands_still(word: _Word, now: datetime) -> bool:
    """Whether the container has run for minutes since, as far as its start tells: a log has no times of its own."""
    running = None if word.log.previous else word.status.state.running
    started = parse_time(running.started_at if running else None)
    return started is not None and now - started > _STANDS_STILL


def _has_gpus(scene: PlacedScene) -> bool:
    count, held = scene.config.gpus.count, scene.once(given).containers
    counted = any(count in ((one.resources and one.resources.limits) or ()) for one in held)
    return counted or given_by_hami(scene.pod.metadata) is not None or bool(volcano.limited_containers(scene.pod))


def _limits_mib(scene: PlacedScene) -> list[int]:
    held = scene.once(given)
    return [share.memory_mib for share in held.shares] if is_limited(scene, held) else []


def _limit_seen(word: _Word, scene: PlacedScene) -> int | None:
    """The memory limit that PyTorch saw as the GPU's total capacity."""
    total = _TOTAL.search(word.hit.quote)
    seen = float(total[1]) if total else 0.0
    return next((limit for limit in _limits_mib(scene) if abs(limit / _GIB_IN_MIB - seen) <= _ROUNDING), None)


def _is_quoted(word: _Word, *, sound: bool) -> bool:
    """Whether the line tells of the words instead of being them; `sound`: nothing is wrong with its container."""
    before = word.log.lines[word.hit.line].partition(word.hit.quote)[0]
    return bool(_OPENS_QUOTE.search(before)) or (sound and bool(_NO_ERROR.search(before)))


def _means_it(word: _Word, now: datetime) -> bool:
    """Whether the words say what is wrong now: most are harmless in a container that goes on."""
    after = word.log.lines[word.hit.line + 1 :]
    last = sum(1 for line in after if line.strip() and not _CORE_LINE.search(line)) <= _AFTER
    signature, trouble = word.hit.signature, in_trouble(word.status, now)
    if not signature.core and signature.id != _NCCL and _is_quoted(word, sound=not trouble):
        return False
    match signature.code:
        case "hami-core-crash":
            return trouble
        case "hami-core-hang":
            return last and not any(map(_INITIALIZED.search, after))
        case "hami-core-missing":
            return not any(map(_CORE_LINE.search, after))
        case _:
            return signature.core or trouble or (last and signature.id not in _ONLY_AT_AN_END)


def _is_sure(word: _Word, now: datetime) -> bool:
    """Whether the words prove it. In the log of a program that runs, others than HAMi-core's may be anybody's."""
    signature = word.hit.signature
    if signature.id in _UNSURE:
        return False
    if signature.code == "hami-core-hang":
        return _count(word) >= _SURE
    if signature.code == "hami-core-missing":
        return True
    return signature.core or in_trouble(word.status, now)


def _finding(scene: PlacedScene, words: Sequence[_Word]) -> Finding:
    pod, now, first = scene.pod, scene.now, words[0]
    signature = first.hit.signature
    same = [word for word in words if word.hit.signature.code == signature.code]
    proofs: list[Evidence] = [log_line(word.log, word.hit.quote) for word in same]
    ended = first.status.last_state.terminated or first.status.state.terminated
    if ended is not None and in_trouble(first.status, now):
        place = "lastState" if first.status.last_state.terminated else "state"
        proofs.append(
            quotes.of_pod(pod, str(ended.exit_code), path_in(pod, first.log.container, f"{place}.terminated.exitCode"))
        )
    if signature.id in _OF_LIMIT:
        proofs.append(quotes.of_holder(pod))
    node = pod.spec.node_name
    claim = Text("in-container.claim", container=first.log.container, node=node or "?", means=_meaning(first, scene))
    if signature.code in _OF_LIBRARY and (fact := _OF_LIBRARY[signature.code](scene.plugins)):
        claim, proofs = sentences(claim, fact.sentence), [*proofs, *fact.proofs]
    if signature.id == _GPU_FULL and (others := _outside_hami(scene)):
        names = [f"{other.namespace}/{other.name}" for other in others]
        claim = sentences(claim, Text("in-container.outside", pods=prose.names(names)))
        proofs += [quotes.of_pod(other, _ALL_GPUS, "{.spec.containers[*].env}") for other in others[:_MOST_OTHERS]]
    return finding(
        signature.code,
        claim,
        "confirmed" if _is_sure(first, now) else "suspected",
        (node,) if node else (),
        proofs,
        severity="warning",
        actions=(fix_of(first.hit),),
    )


def _outside_hami(scene: PlacedScene) -> list[Pod]:
    """The pods of the node that see every GPU without a share of HAMi's; not HAMi's own."""
    side = scene.side
    if side is None or isinstance(side.pods, Gap):
        return []
    own = {pod.metadata.uid for pod in side.plugin_pods}
    return [
        pod
        for pod in side.pods
        if pod.metadata.uid not in own and not is_finished(pod) and not asks_for_devices(pod)
        if not any(is_monitor(each.name) for each in pod.spec.containers)
        if any(one.name == _ALL_GPUS and one.value == "all" for each in pod.spec.containers for one in each.env or ())
    ]


def _meaning(word: _Word, scene: PlacedScene) -> Text:
    """With the amounts, where the words hold them."""
    signature = word.hit.signature
    if signature.id == "core-oom" and (amounts := _AMOUNTS.search(word.hit.quote)):
        needed, limit = (int(amount) // _MIB for amount in amounts.groups())
        return Text("in-container.memory", needed=f"{needed:,}", limit=f"{limit:,}")
    if signature.id == "core-torch-oom" and (seen := _limit_seen(word, scene)) is not None:
        return Text("in-container.memory-seen", limit=f"{seen:,}")
    return signature.means


def _count(word: _Word) -> int:
    """How many lines of the log hold the words."""
    pattern = re.compile(word.hit.signature.pattern)
    return sum(1 for line in word.log.lines if pattern.search(line))
