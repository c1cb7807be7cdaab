"""A recorded question whose answer is known: whether the bot can still read, diagnose and render at all."""

import asyncio
from pathlib import Path

from bot.errors import BotError, bugs_as_errors
from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.report import Report, in_words
from bot.slack.render.limits import total_text
from bot.slack.render.report import render_report
from bot.texts import LANGUAGES, Prose, Text, Texts
from handlers.parsing.grammar import ParsedQuestion
from handlers.parsing.slack_grammar import understand
from playbooks.playbook import Sources

RECORDING = Path(__file__).parent / "known"
WORDS = ("why", "ml/known-answer")
CODE, QUOTE = "impossible-anywhere", "1 4/4 CardInsufficientMemory"
"""One node with GPUs of 15,360 MiB, and a pod that asks for 20,000 MiB."""


async def wrong_answer() -> Prose:
    """Asks it as Slack does, in every language. Why the answer is wrong; empty when it is what it has to be.

    Never raises.
    """
    asked = understand(WORDS)
    assert isinstance(asked, ParsedQuestion)
    try:
        with bugs_as_errors():
            snapshot = await asked.playbook.gather(asked.request, Sources(RecordedCluster.open(RECORDING)))
            return await asyncio.to_thread(lambda: _wrong_with(asked.playbook.diagnose(snapshot)))
    except BotError as error:
        return error.message


def _wrong_with(report: Report) -> Prose:
    first = report.findings[0]
    if first.code != CODE or not any(QUOTE in proof.quote for proof in first.evidence):
        return Text("doctor.other-answer", code=first.code, known=CODE)
    for language in LANGUAGES:
        said = in_words(report, say := Texts(language))
        shown = render_report(said, say, channel_buttons=True, words=" ".join(WORDS))
        if said.verdict not in shown.text or not total_text(list(shown.blocks)):
            return Text("doctor.not-shown")
    return ""
