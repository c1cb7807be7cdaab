"""What a thread gets once: what `why` answers about the first pod, its picture, and a recording that replays it."""

import asyncio
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bot.errors import BotError, SourceError
from bot.hami.vendors import ANNOTATIONS
from bot.kube.cluster import Cluster, seen
from bot.kube.models import EVENTS, PODS, Kind
from bot.kube.recording.record import record
from bot.report import Gap, Severity, in_words, one_line
from bot.slack.message import File, Message
from bot.slack.render import blocks
from bot.slack.render.prose import in_words as told
from bot.slack.render.prose import render_error
from bot.slack.render.report import render_report
from bot.texts import Text
from handlers.deps import Deps
from handlers.inbox import with_picture
from handlers.oncall.causes import answer, cards_of
from playbooks.playbook import Sources

ANSWERED_S = 60.0
RECORDED_S = 60.0


class Bounds(NamedTuple):
    """Of a recording that is attached, and so is kept in the store until Slack has it; `largest` is in bytes.

    It holds all pods, since what a node has left depends on every one, and all events: of too many none is made.
    """

    most_pods: int = 10_000
    most_events: int = 20_000
    largest: int = 8 * 1024 * 1024


_BOUNDS = Bounds()


class EvidenceRequest(NamedTuple):
    """What was asked about, the name that its recording has, the nodes whose cards are shown, and how severe its head
    says that it is: people are told one severity.
    """

    verb: str
    subject: str
    recording: str
    nodes: tuple[str, ...] = ()
    severity: Severity = "warning"


async def evidence(deps: Deps, cluster: str, asked: EvidenceRequest, bounds: Bounds = _BOUNDS) -> Message:
    """The answer with its files. Raises nothing: what could not be found, or not be recorded, the message says."""
    say = deps.say
    try:
        async with asyncio.timeout(ANSWERED_S), deps.open_sources(cluster) as sources:
            found = await answer(sources, asked.verb, asked.subject)
    except TimeoutError:
        values = {"verb": asked.verb, "subject": asked.subject, "seconds": f"{ANSWERED_S:g}"}
        return render_error(BotError(Text("error-oncall.call-no-answer-within", **values))).in_words(say)
    except BotError as error:
        return render_error(error).in_words(say)
    report = await asyncio.to_thread(in_words, msgspec.structs.replace(found, severity=asked.severity), say)
    words = f"{asked.verb} {asked.subject}"
    rendered = partial(render_report, report, say, channel_buttons=False, words=words)
    try:
        async with asyncio.timeout(ANSWERED_S), deps.open_sources(cluster) as sources:
            cards = await cards_of(sources, asked.nodes[0] if len(asked.nodes) == 1 else "")
        message = await asyncio.to_thread(lambda: with_picture(rendered, in_words(cards, say), say))
    except TimeoutError:
        message = _noted(
            rendered(), say("triage.no-picture", why=Text("error-kube.not-finished-within", seconds=f"{ANSWERED_S:g}"))
        )
    except BotError as error:
        message = _noted(rendered(), say("triage.no-picture", why=told(error, say)[0]))
    try:
        async with asyncio.timeout(RECORDED_S), deps.open_sources(cluster) as sources:
            content, unread = await _recording(sources, asked, bounds)
    except TimeoutError:
        return _noted(
            message, say("triage.no-recording", why=Text("error-kube.not-finished-within", seconds=f"{RECORDED_S:g}"))
        )
    except BotError as error:
        return _noted(message, say("triage.no-recording", why=told(error, say)[0]))
    recorded = File(asked.recording, content, say("triage.recording-title", subject=asked.subject))
    notes = [say("triage.recording", words=f"{words} --recording {recorded.name}")]
    if unread:
        notes.append(say("triage.recording-lacks", what=one_line(", ".join(unread), 300)))
    return _noted(message, *notes, files=[recorded])


def _noted(message: Message, *texts: str, files: Sequence[File] = ()) -> Message:
    return message._replace(blocks=(*message.blocks, blocks.context(*texts)), files=(*message.files, *files), newer=())


async def _recording(sources: Sources, asked: EvidenceRequest, bounds: Bounds) -> tuple[bytes, list[str]]:
    """The cluster as `hami-bot record` writes it, redacted, and what could not be read. Raises BotError."""
    await _check_few(sources.cluster, PODS, bounds.most_pods)
    await _check_few(sources.cluster, EVENTS, bounds.most_events)
    namespace, _, pod = asked.subject.rpartition("/")
    with tempfile.TemporaryDirectory(prefix="hami-bot-") as folder:
        out = Path(folder) / asked.recording
        of = (namespace, pod) if namespace else None
        summary = await record(
            sources.cluster, out, pod=of, server_version="", annotations=ANNOTATIONS, ports=sources.ports
        )
        content = await asyncio.to_thread(out.read_bytes)
    if len(content) > bounds.largest:
        raise SourceError(Text("error-oncall.it-has-bytes", count=f"{len(content):,}"))
    return content, [gap.source for gap in summary.gaps]


async def _check_few(cluster: Cluster, kind: Kind[Any], most: int) -> None:
    """Raises SourceError for more. To count them their metadata is enough; of what cannot be read `record` tells."""
    found = await seen(kind.plural, cluster.list(kind, metadata_only=True))
    if not isinstance(found, Gap) and len(found) > most:
        raise SourceError(Text("error-oncall.cluster-has", count=f"{len(found):,}", plural=kind.plural))
