"""Log lines: readable or JSON, with one id from a question in Slack to each call to an API server that it causes."""

import asyncio
import io
import json
import logging
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from bot.endpoint import ALERTS_PATH, alerts_route
from bot.errors import begin_request, request_id
from bot.kube.models import NODES
from bot.kube.watch.cache import CachedCluster
from bot.logs import Format, formatter
from bot.main import open_watched
from handlers.cluster_choice import ClusterChoice
from sandbox.apiserver import ApiServer, Fault
from sandbox.serving import Served
from tests.changes.rig import Steps, rig
from tests.kube.cache_lab import lab, until
from tests.oncall.alerts import Taken
from tests.oncall.bot import webhook
from tests.oncall.rig import a_rig, pending
from tests.slack.bot import POD, RECORDING, a_bot
from tests.stores import new_store


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
        begin_request("a delivery")
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
    bot.slack.connection.client_log.error("not connected", exc_info=error)
    assert "s3cret" not in log.text
    assert "slack.example/?ticket=" in log.text


@pytest.mark.parametrize("log", ["text"], indirect=True)
def test_a_line_for_people_reads_from_left_to_right_and_cannot_be_forged(log: Log) -> None:
    logging.getLogger("bot.some").info("one\n2026-01-01T00:00:00Z INFO bot.other: forged")
    first, second = log.text.splitlines()
    assert first.endswith("Z INFO bot.some: one")
    assert second.startswith("    ")


FORGED = "2026-11-23T17:20:01Z INFO bot.store: the audit log is well"


@pytest.mark.parametrize("log", ["text"], indirect=True)
@pytest.mark.parametrize("end", ["\r", "\x0b", "\x85", "\u2028"], ids=ascii)
def test_no_other_line_end_forges_a_line(log: Log, end: str) -> None:
    logging.getLogger("bot.some").info("pod a%s%s", end, FORGED)
    assert FORGED not in log.text.splitlines()


@pytest.mark.parametrize("log", ["text"], indirect=True)
def test_the_words_of_an_error_forge_no_line(log: Log) -> None:
    error = ValueError(f"no such pod\n{FORGED}")
    logging.getLogger("bot.some").error("it failed", exc_info=error)
    first, *others = log.text.splitlines()
    assert first.endswith("bot.some: it failed")
    assert all(line.startswith("    ") for line in others)


async def test_every_call_to_the_api_server_that_a_question_causes_has_the_questions_id(
    tmp_path: Path, log: Log
) -> None:
    now = datetime.now(UTC)  # noqa: TID251  # the sandbox plays a cluster
    async with ApiServer.from_recording(RECORDING, shift_to=now) as cluster:
        file = tmp_path / "kubeconfig"
        file.write_text(cluster.kubeconfig())

        def opener(name: str) -> Any:
            return open_watched(ClusterChoice(kubeconfig=file, cluster=name))

        async with a_bot(tmp_path, opener=opener) as here:
            for who in ("ada", "linus"):
                await here.command(who, f"why {POD}", "20,000 MiB")
            secrets = [here.slack.bot_token, here.slack.app_token]
    assert not [secret for secret in secrets if secret in log.text]
    answers = [line["request_id"] for line in log.lines() if line["event"].startswith("why: answered")]
    calls = [line for line in log.lines() if line["logger"] == "bot.kube.client.connect"]
    assert len(set(answers)) == 2
    assert {line["request_id"] for line in calls} == set(answers)
    assert {line["status"] for line in calls} <= {"200", "404"}
    assert len(calls) > 10


class Traced(Steps):
    """Under which id each step of a process is taken."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: dict[str, str] = {}

    async def take(self, name: str, step: Callable[[], Awaitable[Any]]) -> Any:
        self.ids[name] = request_id()
        return await super().take(name, step)


async def test_a_revert_by_deadline_and_what_is_noted_of_it_have_one_id_of_their_own(tmp_path: Path, log: Log) -> None:
    steps = Traced()
    async with rig(tmp_path) as here:
        await here.raise_(here.bot())
        await here.passes(0, 599)
        log.stream.truncate(0)
        await here.passes(600, bots=[here.bot(steps)])
        assert await here.is_as_before()
    (call,) = (line for line in log.lines() if "request_id" in line)
    assert (call["verb"], call["status"]) == ("patch", "200")
    assert steps.ids["patch_deployment"] == steps.ids["note"] == call["request_id"]
    assert steps.ids["annotated"] == steps.ids["deployment"] == ""  # what is read at every pass is not told


async def test_a_revert_that_fails_and_its_next_try_have_the_same_id(tmp_path: Path, log: Log) -> None:
    async with rig(tmp_path) as here:
        await here.raise_(here.bot())
        log.stream.truncate(0)
        here.server.faults.append(Fault("/deployments/", "status", status=500, verb="patch", times=1))
        await here.passes(600, 601)
        assert await here.is_as_before()
    failed, done = (
        line for line in log.lines() if line["logger"] == "bot.kube.client.connect" and "request_id" in line
    )
    assert (failed["status"], done["status"]) == ("500", "200")
    assert failed["request_id"] == done["request_id"]
    (said,) = (line for line in log.lines() if line["logger"] == "bot.changes.reconciler")
    assert said["request_id"] == failed["request_id"]


async def test_a_delivery_of_alerts_has_an_id_that_another_does_not_have(log: Log) -> None:
    taken = Taken()
    route = alerts_route(taken.take, lambda: False, token="t")
    application = web.Application()
    application.router.add_post(ALERTS_PATH, route)
    async with Served(application) as served, aiohttp.ClientSession() as session:
        for pod in ("trainer-0", "trainer-1", "trainer-1"):
            headers = {"Authorization": "Bearer t"}
            async with session.post(f"{served.url}{ALERTS_PATH}", json=webhook(pod), headers=headers) as answer:
                assert answer.status == 200
    told = [line for line in log.lines() if line["logger"] == "bot.endpoint"]
    assert {line["event"] for line in told} == {"1 alerts are kept"}
    first, second, again = (line["request_id"] for line in told)
    assert first != second == again  # Alertmanager sends again what it was not told is kept


async def test_each_search_for_the_causes_of_alerts_has_an_id_of_its_own(tmp_path: Path, log: Log) -> None:
    ids: list[str] = []
    async with a_rig(new_store(tmp_path / "store.db"), RECORDING) as here:
        keeper = here.keeper()
        for pod in ("s03-card-insufficient-memory", "s05-exclusive-cores100"):
            await keeper.take([pending(pod=pod)])
            await keeper.look()
        ids.extend(line.get("request_id", "") for line in log.lines() if "causes" in line["event"])
    assert len(set(ids) - {""}) == 2


async def test_what_a_watch_says_later_is_not_told_as_the_questions_that_began_it(tmp_path: Path, log: Log) -> None:
    begin_request("a question")
    refused = Fault("/nodes$", "status", status=403, verb="watch")
    async with lab(tmp_path, refused) as here:
        await CachedCluster(here.cache).list(NODES)
        await until(lambda: "read directly" in log.text)
    listed, told = (line for line in log.lines() if "nodes" in line["event"])
    assert "request_id" in listed
    assert "request_id" not in told
