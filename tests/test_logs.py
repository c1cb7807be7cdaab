"""Log lines: readable or JSON, with one id from a question in Slack to each call to an API server that it causes."""

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bot import trace
from bot.kube.cache import CachedCluster
from bot.kube.models import NODES
from bot.logs import Format, formatter
from bot.main import open_watched
from handlers.where import ClusterChoice
from sandbox.apiserver import ApiServer, Fault
from tests.kube.cache_lab import lab, until
from tests.slack.bot import POD, RECORDING, a_bot


class Log(logging.StreamHandler[io.StringIO]):
    """What is logged while a test runs, as it would be written."""

    def __init__(self, form: Format) -> None:
        super().__init__(io.StringIO())
        self.setFormatter(formatter(form))

    @property
    def text(self) -> str:
        return self.stream.getvalue()

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text.splitlines()]


@pytest.fixture(name="log", params=["json"])
def _log(request: pytest.FixtureRequest) -> Iterator[Log]:
    root, handler = logging.getLogger(), Log(request.param)
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    yield handler
    root.removeHandler(handler)
    root.setLevel(before)


in_each_form = pytest.mark.parametrize("log", ["text", "json"], indirect=True)


def test_a_json_line_has_its_time_level_logger_words_and_id(log: Log) -> None:
    async def asked() -> None:
        trace.begin("a delivery")
        logging.getLogger("bot.some").warning("%d pods", 3, extra={"cluster": "lab", "token": "s3cret"})

    asyncio.run(asked())
    logging.getLogger("slack_bolt").info("by itself")
    first, second = log.lines()
    assert datetime.fromisoformat(first.pop("time")).tzinfo
    assert len(first.pop("request_id")) == 8
    assert first == {"level": "warning", "logger": "bot.some", "event": "3 pods", "cluster": "lab"}
    assert (second["logger"], second["event"], "request_id" in second) == ("slack_bolt", "by itself", False)


@in_each_form
def test_a_traceback_tells_no_values_and_stays_with_its_line(log: Log) -> None:
    def fails(token: str) -> None:
        raise ValueError(len(token))

    token = "s3" + "cret"
    try:
        fails(token)
    except ValueError:
        logging.getLogger("bot.some").exception("it failed")
    assert "s3cret" not in log.text
    assert "in fails" in log.text
    assert "ValueError: 6" in log.text


@in_each_form
def test_the_ticket_of_a_connection_stays_out_of_a_traceback(log: Log) -> None:
    import bot.slack.connection

    error = ValueError("wss://slack.example/?ticket=s3cret")
    bot.slack.connection.log.error("not connected", exc_info=error)
    assert "s3cret" not in log.text
    assert "slack.example/?ticket=" in log.text


@pytest.mark.parametrize("log", ["text"], indirect=True)
def test_a_line_for_people_reads_from_left_to_right_and_cannot_be_forged(log: Log) -> None:
    logging.getLogger("bot.some").info("one\n2026-01-01T00:00:00Z INFO bot.other: forged")
    first, second = log.text.splitlines()
    assert first.endswith("Z INFO bot.some: one")
    assert second.startswith("    ")


def test_every_call_to_the_api_server_that_a_question_causes_has_the_questions_id(tmp_path: Path, log: Log) -> None:
    async def play() -> None:
        now = datetime.now(UTC)  # noqa: TID251  # the sandbox plays a cluster
        async with ApiServer.from_recording(RECORDING, shift_to=now) as cluster:
            file = tmp_path / "kubeconfig"
            file.write_text(cluster.kubeconfig())

            def opener(name: str) -> Any:
                return open_watched(ClusterChoice(kubeconfig=file, cluster=name))

            async with a_bot(tmp_path, opener=opener) as here:
                for who in ("ada", "linus"):
                    await here.slack.command(who, "gpu-oncall", f"why {POD}")
                    await here.slack.wait_for(channel="gpu-oncall", containing="20,000 MiB", user=who)
                secrets = [here.slack.bot_token, here.slack.app_token]
        assert not [secret for secret in secrets if secret in log.text]

    asyncio.run(play())
    answers = [line["request_id"] for line in log.lines() if line["event"].startswith("why: answered")]
    calls = [line for line in log.lines() if line["logger"] == "bot.kube.connect"]
    assert len(set(answers)) == 2
    assert {line["request_id"] for line in calls} == set(answers)
    assert {line["status"] for line in calls} <= {"200", "404"}
    assert len(calls) > 10


def test_what_a_watch_says_later_is_not_told_as_the_questions_that_began_it(tmp_path: Path, log: Log) -> None:
    async def play() -> None:
        trace.begin("a question")
        refused = Fault("/nodes$", "status", status=403, verb="watch")
        async with lab(tmp_path, refused) as here:
            await CachedCluster(here.cache).list(NODES)
            await until(lambda: "read directly" in log.text)

    asyncio.run(play())
    listed, told = (line for line in log.lines() if "nodes" in line["event"])
    assert "request_id" in listed
    assert "request_id" not in told
