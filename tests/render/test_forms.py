"""What every form in Slack has in common."""

from typing import Any

import pytest

from bot.changes.kinds import VERBOSITY
from bot.changes.plan import Plan, plan_raise
from bot.slack.message import Message
from bot.slack.render import blocks
from bot.slack.render.change import ChangeOffer, offer_form, told_form, waiting_form
from bot.slack.render.digest import DigestPlace
from bot.slack.render.digest import form as digest_form
from bot.slack.render.triage import form as triage_form
from bot.texts import Language, Texts
from tests.changes.deployments import EXTENDER, NOW, deployment, wants


def forms() -> dict[str, dict[str, Any]]:
    wanted = wants(VERBOSITY, "5", EXTENDER, 600, "U1", "a pod hangs")
    plan = plan_raise(deployment(args=["-v=4"]), wanted, now=NOW, change_id="c1", version=None)
    assert isinstance(plan, Plan)
    return {
        "offer": offer_form(ChangeOffer(plan.record, (), "", two_person=False), "{}"),
        "waiting": waiting_form(),
        "told": told_form(Message("no")),
        "digest": digest_form(DigestPlace(), "UTC"),
        "note": triage_form("note", "0123abcd", "C0GPUONC01"),
        "mute": triage_form("mute", "0123abcd", "C0GPUONC01"),
        "handover": triage_form("handover", "0123abcd", "C0GPUONC01"),
    }


@pytest.mark.parametrize(("language", "word"), [("en", "Cancel"), ("zh", "取消")])
def test_the_button_that_leaves_a_form_says_cancel(language: Language, word: str) -> None:
    said = {name: one["close"]["text"] for name, one in blocks.in_words(forms(), Texts(language)).items()}
    assert set(said.values()) == {word}, said
