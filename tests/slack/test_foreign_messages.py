"""Messages of people and other apps: whatever they name is read, wherever in the message it stands."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.slack.message import LONGEST, said_in
from sandbox.slack import strangers
from tests.slack.bot import POD, VERDICT, Here, played

LABELS = {"alertname": "PodPending", "namespace": "ml", "pod": POD}
ALERTS = {
    "alertmanager": strangers.alertmanager(LABELS),
    "fields": strangers.alertmanager({"alertname": "PodPending"}, fields={"pod": POD}),
    "grafana": strangers.grafana(LABELS),
    "colour bar": strangers.colour_bar("A pod is pending", {"Pod": f"ml/{POD}"}),
    "link": strangers.colour_bar(f"<http://grafana.example/d/x?var-namespace=ml&var-pod={POD}|Dashboard>"),
}


@pytest.mark.parametrize("alert", ALERTS)
@played(mode="socket")
async def test_in_a_thread_under_another_apps_alert_its_pod_need_not_be_named(here: Here, *, alert: str) -> None:
    head = await here.slack.alert("gpu-oncall", ALERTS[alert])
    await here.slack.mention("grace", "gpu-oncall", "why", thread_ts=head)
    await here.slack.wait_for(channel="gpu-oncall", containing=VERDICT, thread_ts=head)
    await here.slack.shortcut("ada", "diagnose", channel="gpu-oncall", message_ts=head)
    await here.slack.wait_for(channel="gpu-oncall", containing=VERDICT, user="ada")


@pytest.mark.parametrize(
    "message",
    [
        {"text": "ml/trainer-0"},
        {"attachments": [{"pretext": "ml/trainer-0"}]},
        {"attachments": [{"title": "ml/trainer-0", "footer": "x"}]},
        {"attachments": [{"footer": "ml/trainer-0"}]},
        {"attachments": [{"fields": [{"title": "pod", "value": "ml/trainer-0"}]}]},
        {"attachments": [{"blocks": [{"type": "section", "fields": [{"type": "mrkdwn", "text": "ml/trainer-0"}]}]}]},
        {"attachments": [{"message_blocks": [{"message": {"blocks": [{"text": {"text": "ml/trainer-0"}}]}}]}]},
        {"attachments": [{"title_link": "http://g/d/x?var-namespace=ml&var-pod=trainer-0"}]},
        {"attachments": [{"actions": [{"type": "button", "url": "http://g/?pod=ml%2Ftrainer-0"}]}]},
        {"text": "see <http://g/explore?namespace=ml&amp;pod=trainer-0|Logs>"},
        {"files": [{"name": "log.txt", "preview": "ml/trainer-0 is refused"}]},
        {"blocks": [{"type": "table", "rows": [[{"text": "a"}], [{"text": "b"}, {"text": "ml/trainer-0"}]]}]},
        {"blocks": [{"type": "rich_text", "elements": [{"elements": [{"type": "text", "text": "ml/trainer-0"}]}]}]},
        {"blocks": [{"type": "context", "elements": [{"type": "mrkdwn", "text": "ml/trainer-0"}]}]},
    ],
    ids=str,
)
def test_a_name_is_read_wherever_it_stands(message: dict[str, Any]) -> None:
    assert "ml/trainer-0" in said_in(message)


def test_a_link_is_its_word_and_its_address_comes_last() -> None:
    said = said_in({"text": "<http://g/d/abc-1?var-pod=x-0|Dashboard> of <@U1> &amp; co"})
    assert said.splitlines() == ["Dashboard of <@U1> &amp; co", "x-0", "http://g/d/abc-1?var-pod=x-0"]


def test_what_a_button_carries_is_not_read() -> None:
    assert said_in({"blocks": [{"elements": [{"action_id": "a", "value": "secret-0", "text": "Go"}]}]}) == "Go"


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["text", "blocks", "attachments", "fields", "title", "url", "rows", "files", "value", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(["text", "blocks", "attachments", "files", "fallback"]), _JSON))
def test_a_message_of_any_shape_is_read(message: dict[str, Any]) -> None:
    assert len(said_in(message)) <= LONGEST


def test_a_message_that_is_huge_or_deep_is_read_in_part() -> None:
    deep: Any = "bottom"
    for _ in range(100_000):
        deep = [deep]
    wide = [{"text": f"{number} " * 1000} for number in range(2000)]
    assert said_in({"text": "top", "blocks": deep}) == "top"
    assert len(said_in({"attachments": wide})) == LONGEST
    while isinstance(deep, list):  # taken apart by hand: freeing it at once recurses
        [deep] = deep


RECORDED: list[dict[str, Any]] = json.loads((Path(__file__).parent / "slack_messages.json").read_text())
"""Messages as Slack delivers them, from the public SDKs' own tests and logs; `from` names repository and file."""


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda recorded: recorded["from"])
def test_a_recorded_message_is_read_whole(recorded: dict[str, Any]) -> None:
    message = recorded["message"]
    said = said_in(message).split()
    words = [word for text in _texts(message) for word in text.split() if not word.startswith("<http")]
    assert [word for word in words if word not in said] == []


def _texts(value: Any) -> Iterator[str]:
    """What stands under `text` and what names a file, wherever that is."""
    for key, one in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        if key in ("text", "title", "name", "preview") and isinstance(one, str):
            yield one
        elif key not in ("previous_message", "root", "edited", "user_profile", "bot_profile", "icons", "reactions"):
            yield from _texts(one)
