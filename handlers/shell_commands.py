"""Commands that only a shell has: `record`, `audit`, and `tune compare` of two recordings."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from bot.errors import SourceError, UsageError
from bot.render.words import visible
from bot.report import Report
from bot.settings import load_settings
from bot.texts import Text, in_english
from handlers.cluster_choice import ClusterChoice, open_sources
from handlers.parsing.grammar import ParsedQuestion
from playbooks.own.discovery import find
from playbooks.playbook import Sources

if TYPE_CHECKING:
    from bot.store.audit import Audit, AuditEntry, Verified
    from handlers.changes.request import ChangeSnapshot


_NEVER = (
    "left out on purpose: Secrets, the logs and last words of workloads, their commands, and the values of environment"
    " variables that HAMi and NVIDIA do not read"
)


def read_pod(text: str) -> tuple[str, str] | None:
    """The namespace and the name in `ml/trainer-0`; None for an empty text. Raises UsageError."""
    namespace, _, name = text.partition("/")
    if text and not (namespace and name):
        why = Text("error-recording.pod-is-not-namespace-name", pod=repr(text))
        raise UsageError(why, example="--pod ml/trainer-0")
    return (namespace, name) if text else None


async def write_recording(sources: Sources, out: Path, pod: tuple[str, str] | None) -> str:
    """Records the cluster into `out`; returns in words what was written and what could not be read."""
    from bot.hami.vendors import ANNOTATIONS  # noqa: PLC0415  # see `handlers.cluster_choice`
    from bot.kube.client.live import LiveCluster  # noqa: PLC0415
    from bot.kube.recording.record import record  # noqa: PLC0415

    cluster = sources.cluster
    if not isinstance(cluster, LiveCluster):
        raise UsageError(
            Text("error-recording.cluster-is-itself-recording"),
            hint=Text("error-recording.name-live-cluster-with-kubeconfig"),
        )
    server = await cluster.server_version()
    summary = await record(cluster, out, pod=pod, server_version=server, annotations=ANNOTATIONS, ports=sources.ports)
    lines = [f"wrote {summary.path}: {sum(summary.objects.values())} objects, {len(summary.logs)} logs"]
    lines += [f"left out {gap.source}: {in_english(gap.text)}" for gap in summary.gaps]
    lines += [f"left out {what}" for what in cluster.undecodable]
    lines.append(_NEVER)
    if not summary.objects:
        raise SourceError(Text("error-recording.nothing-of-cluster-read"), hint="\n".join(lines[1:]))
    return "\n".join(lines)


async def write_capture(sources: Sources, found: "ChangeSnapshot", out: Path) -> str:
    """Records into `out` what a restart of the scheduler destroys; returns in words what was written and missed."""
    from bot.hami.vendors import ANNOTATIONS  # noqa: PLC0415
    from bot.kube.client.live import LiveCluster  # noqa: PLC0415
    from bot.kube.recording.record import capture  # noqa: PLC0415

    cluster = sources.cluster
    if not isinstance(cluster, LiveCluster):
        raise UsageError(Text("error-recording.only-live-cluster-can"))
    pods = found.around.pods or found.install.pods
    summary = await capture(cluster, found.namespace, pods, out, annotations=ANNOTATIONS)
    lines = [f"captured what the restart destroys: {summary.path}"]
    return "\n".join([*lines, *(f"left out {gap.source}: {in_english(gap.text)}" for gap in summary.gaps)])


BROKEN = 5
"""The exit code of `--verify` for a log that is not as it was written, or has no signature where a key is set."""
_COLUMNS = ("seq", "at", "actor", "action", "target", "outcome", "detail")


async def run_audit(*, limit: int, verify: bool, last_hash: str, output: str, config: Path | None) -> tuple[str, int]:
    """The audit log as text or JSON to print, and the exit code. Raises StoreError if it cannot be read. The log is in
    the store of the settings, or in the usual one. It is only read: the store is not made or upgraded.
    """
    from bot.settings.schema import StoreSettings  # noqa: PLC0415  # with the store, half a second
    from bot.store import open_beside  # noqa: PLC0415

    settings = load_settings(config)
    store = settings.store if settings else StoreSettings()
    async with open_beside(store.url.get_secret_value(), audit_keys=store.audit_keys) as opened:
        if verify or last_hash:
            return await _verify(opened.audit, last_hash, output, has_key=bool(store.audit_keys))
        entries = (await opened.audit.read(limit))[::-1]
    if output == "json":
        return _json({"entries": [msgspec.structs.asdict(entry) for entry in entries]}), 0
    rows = [[visible(_cell(entry, name)) for name in _COLUMNS] for entry in entries]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "\n".join(lines) or "the audit log is empty", 0


async def _verify(audit: "Audit", last_hash: str, output: str, *, has_key: bool) -> tuple[str, int]:
    from bot.store.audit import Broken  # noqa: PLC0415  # with the store, half a second

    found = await audit.verify(last_hash.strip().lower())
    if isinstance(found, Broken):
        if output == "json":
            return _json({"verdict": "broken", "first_bad": found._asdict()}), BROKEN
        return f"the audit log is not whole{f', entry {found.seq}' if found.seq else ''}: {found.why}", BROKEN
    code = BROKEN if has_key and found.entries and not found.signed_from else 0
    if output == "json":
        verdict = "whole" if found.signed_from == 1 else "partly signed" if found.signed_from else "unsigned"
        return _json({"verdict": verdict, **found._asdict()}), code
    return "\n".join(_told(found, has_key=has_key)), code


def _told(found: "Verified", *, has_key: bool) -> list[str]:
    if not found.entries:
        return ["the audit log is empty"]
    first = found.signed_from
    if first == 1:
        lines = [f"the audit log is whole: {found.entries} entries, all signed"]
    elif first:
        lines = [
            f"the audit log is signed from entry {first} of {found.entries} on, and unchanged since that was written",
            f"This check cannot detect that entries 1 to {first - 1} were changed before: they have no signatures",
        ]
    else:
        why = "no entry has a signature, but store.audit_key is set" if has_key else "store.audit_key is not set"
        lines = [
            f"the audit log is unsigned ({why}): {found.entries} entries, each with the hash of the one before",
            "This check cannot detect that somebody who can write the store changed an entry and all later hashes",
        ]
    if found.kept_at:
        lines.append(
            f"The hash that you kept is of entry {found.kept_at}: entries 1 to {found.kept_at} are as they were"
        )
    else:
        lines.append("This check cannot detect that newest entries were removed: --last-hash with a hash you kept can")
    return [*lines, f"Keep this last hash, of entry {found.entries}: {found.newest}"]


def _cell(entry: "AuditEntry", name: str) -> str:
    value: Any = getattr(entry, name)
    return value if isinstance(value, str) else _json(value) if value else ""


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


VERB = "tune"
_COMPARE = "compare"


class CompareAsked(NamedTuple):
    """A request to compare two recordings, folders or archives, with the values of the shell's own options."""

    before: Path
    after: Path
    all: bool
    options: dict[str, Any]


def tune_command(program: str, options: Sequence[click.Parameter]) -> click.Command:
    """The command `tune`: the playbook's verb, which compares two days, and the comparison of two recordings."""
    playbook = find(VERB)

    def ask(words: Sequence[str], all: bool, template: str | None, **values: Any) -> ParsedQuestion | CompareAsked:  # noqa: A002, FBT001
        try:
            return ParsedQuestion(playbook, playbook.request(words=words, all=all, template=template), values)
        except UsageError:
            if len(words) != 3 or words[0].lower() != _COMPARE or template:
                raise
        return CompareAsked(Path(words[1]), Path(words[2]), all, values)

    return click.Command(
        VERB,
        callback=ask,
        params=[*playbook.parameters, *options],
        help=f"{playbook.summary} {_COMPARE} BEFORE AFTER: what changed between two dates or two recordings, and "
        "whether it helped.",
        short_help=playbook.summary,
        epilog=f"Example: {program} {playbook.example}",
    )


async def compare_recordings(asked: CompareAsked, where: ClusterChoice) -> Report:
    """Compares two recordings. Raises SourceError for what is no recording, UsageError if a cluster is named, too."""
    if other := next((name for name in ("recording", "kubeconfig", "context") if getattr(where, name)), ""):
        message = Text("error-tune.compare-names-cluster", other=other)
        raise UsageError(message, hint=Text("error-tune.leave-out", other=other))
    from playbooks.tune.compare import compare, gather_side  # noqa: PLC0415  # only this command needs it

    async with (
        open_sources(where._replace(recording=asked.before)) as before,
        open_sources(where._replace(recording=asked.after)) as after,
    ):
        sides = await asyncio.gather(gather_side(before), gather_side(after))
    return compare(asked, *sides)
