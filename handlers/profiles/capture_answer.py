"""The answer to a profile that was taken: the message with its files, and what is kept of it. Slow for large ones."""

from typing import NamedTuple

from bot.report import in_words
from bot.slack.message import Message
from bot.slack.render.report import render_report, with_short_names
from bot.store.profiles import KeptProfile
from bot.texts import Texts
from handlers.profiles.files import profile_files
from playbooks.profile.fetch import FetchedProfile, Snapshot
from playbooks.profile.playbook import diagnose, seen_in
from playbooks.profile.request import name_of


class Answer(NamedTuple):
    """`kept` is None where there is no profile."""

    message: Message
    kept: KeptProfile | None
    content: bytes


def answer_to(snapshot: Snapshot, words: str, say: Texts) -> Answer:
    """`words` is the question as typed, for the button that asks it again. Raises SourceError for what is none."""
    seen = seen_in(snapshot)
    report = in_words(diagnose(snapshot, seen), say)
    message = render_report(with_short_names(report), say, channel_buttons=False, words=words)
    taken = snapshot.outcome
    if seen is None or not isinstance(taken, FetchedProfile):
        return Answer(message, None, b"")
    kind, content = snapshot.request.kind, taken.content
    name = name_of(kind, content)
    kept = KeptProfile(
        id=name,
        cluster=snapshot.cluster,
        target=str(taken.address),
        kind=kind,
        version=taken.version,
        taken_at=snapshot.taken_at.timestamp(),
        seconds=float(snapshot.request.seconds),
        size=len(content),
    )
    files = profile_files(name, kind, taken.wanted.pod, content, seen.profile, say)
    return Answer(message._replace(files=(*files, *message.files)), kept, content)
