"""/metrics tells what waits and why, what has room, and whether the bot is well; a scrape reads nothing."""

import asyncio
import re
import shutil
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest
from aiohttp import web
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parsed
from prometheus_client.parser import text_string_to_metric_families as parsed_plain

from bot import process_counters
from bot.errors import Bug, SourceError
from bot.finding_codes import CODES
from bot.kube.client.connect import open_cluster
from bot.kube.models import NODES, PODS
from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.main import running
from bot.metrics import (
    MOST_NAMESPACES,
    MOST_TYPES,
    NOT_JUDGED,
    OTHER_SOURCE,
    OTHERS,
    BotFigures,
    ClusterFigures,
    Exposition,
    PendingPod,
    count_pending,
    gaps_by_source,
    largest_by_type,
    metrics_route,
)
from bot.settings.schema import ClusterSettings, MetricsSettings
from bot.texts import Texts
from handlers.inbox import timed
from handlers.metrics_poller import look_at
from playbooks.own.discovery import find
from playbooks.pending.rows import PendingRow
from playbooks.playbook import Sources
from sandbox.apiserver import ApiServer, Fault
from sandbox.slack import SlackServer
from tests.kube.live_servers import write_kubeconfig
from tests.metric_names import OPEN_METRICS, everything, figures_of, names_told, scraped, text_of, waiting
from tests.slack.bot import POD, a_bot, recorded, settings

ROOT = Path(__file__).parents[1]
RECORDED = [
    ROOT / "sandbox" / "recordings" / "hami-2.10.tar.gz",
    *sorted((ROOT / "tests").rglob("recording.tar.gz")),
]


def samples(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    return {family.name: [(dict(sample.labels), sample.value) for sample in family.samples] for family in parsed(text)}


# ------------------------------------------------------------------------------------------------------- what is told


def test_pods_are_counted_by_namespace_class_and_code() -> None:
    pending = (*waiting(3, "ml"), *waiting(2, "cv", "wrong-scheduler", 90.0), PendingPod("ml", None, 10.0, "unknown"))
    told = samples(text_of(figures_of(lab=ClusterFigures(count_pending(pending)))))
    assert told["hami_bot_pending_pods"] == [
        ({"cluster": "lab", "namespace": "ml", "class": "capacity", "code": "card-insufficient-memory"}, 3.0),
        ({"cluster": "lab", "namespace": "cv", "class": "misconfigured", "code": "wrong-scheduler"}, 2.0),
        ({"cluster": "lab", "namespace": "ml", "class": "unknown", "code": NOT_JUDGED}, 1.0),
    ]
    assert ({"cluster": "lab", "class": "misconfigured"}, 90.0) in told["hami_bot_oldest_pending_seconds"]


def test_gpus_are_told_by_state_and_the_largest_free_slice_by_type() -> None:
    seen = ClusterFigures(gpus={"free": 6, "unhealthy": 1}, largest_free_mib={"A100": 1024})
    told = samples(text_of(figures_of(lab=seen)))
    assert told["hami_bot_gpus"] == [
        ({"cluster": "lab", "state": "free"}, 6.0),
        ({"cluster": "lab", "state": "unhealthy"}, 1.0),
    ]
    assert told["hami_bot_largest_free_slice_bytes"] == [({"cluster": "lab", "type": "A100"}, 1073741824.0)]


def test_of_a_cluster_that_could_not_be_read_nothing_is_told_but_that() -> None:
    told = samples(text_of(figures_of(lab=ClusterFigures(count_pending(waiting(1, "ml"))), gone=None)))
    assert told["hami_bot_blind"] == [({"cluster": "lab"}, 0.0), ({"cluster": "gone"}, 1.0)]
    others = [labels for name, some in told.items() if name != "hami_bot_blind" for labels, _ in some]
    assert "gone" not in [labels.get("cluster") for labels in others]


def test_a_cluster_whose_self_test_failed_is_blind_and_its_figures_stay() -> None:
    figures = figures_of(lab=ClusterFigures(count_pending(waiting(1, "ml"))), prod=ClusterFigures())
    figures.blind = frozenset({"lab"})
    told = samples(text_of(figures))
    assert told["hami_bot_blind"] == [({"cluster": "lab"}, 1.0), ({"cluster": "prod"}, 0.0)]
    assert told["hami_bot_pending_pods"]


def test_what_the_store_could_not_tell_is_left_out() -> None:
    assert "hami_bot_open_changes" not in samples(text_of(figures_of()))
    figures = figures_of()
    figures.bot = BotFigures(2, 1, {"open": 3}, 4, 5.0)
    told = samples(text_of(figures))
    assert told["hami_bot_overdue_changes"] == [({}, 1.0)]
    assert told["hami_bot_incidents"] == [({"state": "open"}, 3.0)]


def test_namespaces_beyond_the_most_are_counted_together() -> None:
    pending = [pod for n in range(MOST_NAMESPACES + 50) for pod in waiting(2 if n < MOST_NAMESPACES else 1, f"ns-{n}")]
    told = samples(text_of(figures_of(lab=ClusterFigures(count_pending(pending)))))["hami_bot_pending_pods"]
    assert len(told) == MOST_NAMESPACES + 1
    assert [value for labels, value in told if labels["namespace"] == OTHERS] == [50.0]
    assert sum(value for _, value in told) == len(pending)


def test_gpu_types_beyond_the_most_and_what_is_too_long_add_no_series() -> None:
    slices = [(f"type-{n}", n) for n in range(MOST_TYPES + 50) for _ in range(2 if n < MOST_TYPES else 1)]
    told = largest_by_type(slices)
    assert len(told) == MOST_TYPES + 1
    assert told[OTHERS] == MOST_TYPES + 49
    assert told["type-7"] == 7
    assert largest_by_type([("x" * 5_000 + "1", 3), ("x" * 5_000 + "2", 4)]) == {"x" * 63: 4}


HOSTILE = ('a"b\\c', 'x\nhami_bot_blind{cluster="lab"} 7\n# EOF', "\r\u2028\x00\x85", 'y\r\n"} 1')


@pytest.mark.parametrize("accept", ["", OPEN_METRICS])
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_a_value_of_its_label_and_nothing_else(name: str, accept: str) -> None:
    seen = ClusterFigures(
        count_pending(waiting(1, name)), {name: 1}, largest_by_type([(name, 7)]), gaps_by_source([name])
    )
    _, text = asyncio.run(scraped(figures_of(lab=seen), Accept=accept))
    families = {family.name: family.samples for family in (parsed if accept else parsed_plain)(text)}
    assert [sample.labels["namespace"] for sample in families["hami_bot_pending_pods"]] == [name]
    assert [sample.labels["type"] for sample in families["hami_bot_largest_free_slice_bytes"]] == [name]
    assert [sample.value for sample in families["hami_bot_blind"]] == [0.0]


@pytest.mark.parametrize("version", ["abc", "1.x", "", "-1", "1" * 500])
def test_a_format_that_nobody_knows_gets_one_that_everybody_does(version: str) -> None:
    status, text = asyncio.run(scraped(figures_of(), Accept=f"application/openmetrics-text; version={version}"))
    assert status == 200
    assert "hami_bot_ready 1.0" in text


def test_a_gap_is_told_by_its_source_and_names_no_object() -> None:
    sources = ["nodes", "nodes", "log of hami-system/hami-device-plugin-q9g8w device-plugin", "pods of node gpu-7", "x"]
    sources += ["log of kube-system/hami-scheduler-7c9d8b6f5-x2x2x", "node gpu-7", "vGPUmonitor metrics of a/b"]
    figures = figures_of(lab=ClusterFigures(gaps=gaps_by_source(sources)))
    told = {labels["source"]: value for labels, value in samples(text_of(figures))["hami_bot_gaps"]}
    assert told == {"nodes": 1, "log": 2, "pods": 1, OTHER_SOURCE: 1, "node": 1, "vGPUmonitor metrics": 1}


async def test_the_text_of_a_look_is_replaced_by_that_of_the_next() -> None:
    exposition = Exposition(figures_of())
    for free, accept in ((1, OPEN_METRICS), (1, ""), (2, OPEN_METRICS)):
        exposition.figures.clusters = {"lab": ClusterFigures(gpus={"free": free})}
        body, _ = await exposition.text(accept)
        assert f'hami_bot_gpus{{cluster="lab",state="free"}} {free}.0' in body.decode()


def test_the_docs_tell_every_metric_and_no_other() -> None:
    rows = re.findall(r"^\| (`.*?) \|", (ROOT / "docs" / "metrics.md").read_text(), re.MULTILINE)
    told = {name for row in rows for name in re.findall(r"`(hami_bot_\w+)`", row)}
    ours = {re.sub(r"_(bucket|count|sum)$", "", name) for name in names_told()}
    assert told == ours


def test_every_code_has_a_class() -> None:
    classes = {code: about.pending_class for code, about in CODES.items()}
    assert set(classes.values()) == {"misconfigured", "capacity", "platform_fault", "retry", "unknown"}
    assert classes["waiting-for-retry"] == "retry"
    assert classes["scheduler-down"] == "platform_fault"
    assert classes["impossible-anywhere"] == "misconfigured"


# --------------------------------------------------------------------------------------------------------- who may read


@pytest.mark.parametrize(
    ("token", "given", "status"),
    [("", "", 200), ("s3cret", "", 401), ("s3cret", "Bearer wrong", 401), ("s3cret", "Bearer s3cret", 200)],
)
def test_with_a_token_nobody_reads_without_it(token: str, given: str, status: int) -> None:
    found, text = asyncio.run(scraped(figures_of(), token, Authorization=given))
    assert found == status
    assert "s3cret" not in text


@pytest.mark.parametrize(
    ("remote", "status"),
    [*((far, 401) for far in ("192.0.2.7", "127.0.0.6", "::ffff:127.0.0.6", "", "localhost"))]
    + [(near, 200) for near in ("127.0.0.1", "::1", "::ffff:127.0.0.1")],
)
async def test_without_a_token_only_this_machine_reads(remote: str, status: int) -> None:
    """A service mesh's sidecar passes on what anybody sent as 127.0.0.6."""
    from aiohttp.test_utils import make_mocked_request  # for addresses that the machine may not have

    asked = make_mocked_request("GET", "/metrics").clone(remote=remote)
    answer = cast("web.Response", await cast(Any, metrics_route(Exposition(figures_of()), ""))(asked))
    assert answer.status == status
    assert status == 200 or "metrics.token" in (answer.text or "")


@pytest.mark.parametrize("accept", ["", OPEN_METRICS])
@pytest.mark.process
def test_prometheus_own_linter_finds_nothing_wrong_with_it(accept: str) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("no promtool is installed; .ci/run installs it")
    _, text = asyncio.run(scraped(everything(), Accept=accept))
    if not accept:
        done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout + done.stderr) == (0, "")
    assert list(parsed(text) if accept else parsed_plain(text))


# ----------------------------------------------------------------------------------------------------------- the bot


@pytest.mark.parametrize("recording", RECORDED, ids=lambda path: path.parent.name)
def test_the_sum_over_codes_is_what_pending_lists(recording: Path) -> None:
    async def main() -> tuple[ClusterFigures, int]:
        sources = Sources(RecordedCluster.open(recording))
        playbook = find("pending")
        snapshot = await playbook.gather(playbook.request(), sources)
        rows = playbook.report(snapshot, Texts("en")).typed(PendingRow)
        return await look_at(sources, asyncio.Lock()), len(rows)

    seen, listed = asyncio.run(main())
    told = samples(text_of(figures_of(lab=seen))).get("hami_bot_pending_pods", [])
    assert sum(value for _, value in told) == listed


def test_a_cluster_that_cannot_be_read_is_one_to_which_the_bot_is_blind(tmp_path: Path) -> None:
    @asynccontextmanager
    async def unreachable(cluster: str) -> AsyncGenerator[Sources]:
        raise SourceError(f"no way to {cluster}")
        yield

    told = samples(asyncio.run(told_by_the_bot(tmp_path, unreachable, "hami_bot_blind{")))
    assert [value for _, value in told["hami_bot_blind"]] == [1.0]
    assert not told["hami_bot_pending_pods"]


def test_a_cluster_that_hangs_leaves_no_figure_of_another_or_of_the_store_untold(tmp_path: Path) -> None:
    @asynccontextmanager
    async def one_hangs(cluster: str) -> AsyncGenerator[Sources]:
        if cluster == "a-hanging":
            await asyncio.Event().wait()
        async with recorded(cluster) as sources:
            yield sources

    clusters = {name: ClusterSettings() for name in ("a-hanging", "lab")}
    told = samples(asyncio.run(told_by_the_bot(tmp_path, one_hangs, "hami_bot_pending_pods{", clusters=clusters)))
    assert {labels["cluster"] for labels, _ in told["hami_bot_pending_pods"]} == {"lab"}


def test_the_running_bot_serves_what_it_saw_last(tmp_path: Path) -> None:
    told = samples(asyncio.run(told_by_the_bot(tmp_path, recorded, "hami_bot_pending_pods{")))
    assert told["hami_bot_ready"] == [({}, 1.0)]
    assert told["hami_bot_blind"][0][1] == 0.0
    assert sum(value for _, value in told["hami_bot_pending_pods"]) > 10
    assert told["hami_bot_open_changes"] == [({}, 0.0)]


async def told_by_the_bot(folder: Path, opener: Any, until: str, **chosen: Any) -> str:
    """What a running bot tells as soon as that stands in it, and the store was asked."""
    async with (
        SlackServer() as slack,
        metrics_served(slack, folder, opener=opener, **chosen) as address,
        aiohttp.ClientSession() as session,
    ):
        while True:
            async with session.get(f"{address}/metrics", headers={"Accept": OPEN_METRICS}) as answer:
                text = await answer.text()
            if until in text and "hami_bot_open_changes" in text:
                return text
            await asyncio.sleep(0.05)


@asynccontextmanager
async def metrics_served(slack: SlackServer, folder: Path, opener: Any = recorded, **over: Any) -> AsyncGenerator[str]:
    """The address of a bot that serves /metrics. `over` replaces settings."""
    chosen = settings(slack, folder).model_copy(update={"metrics": MetricsSettings(), **over})
    assert chosen.slack
    async with running(chosen, chosen.slack, opener) as address:
        yield address


async def test_a_question_in_slack_is_counted_with_its_ack_its_playbook_and_its_outcome(tmp_path: Path) -> None:
    def counts(histogram: process_counters.Histogram, *labels: str) -> int:
        return sum(told[-1] for found, told, _ in histogram.cumulated() if found == labels)

    before = counts(process_counters.ACKS), counts(process_counters.PLAYBOOKS, "why", "answered")
    async with a_bot(tmp_path) as here:
        await here.command("ada", f"why {POD}", "20,000 MiB")
    assert (counts(process_counters.ACKS), counts(process_counters.PLAYBOOKS, "why", "answered")) == (
        before[0] + 1,
        before[1] + 1,
    )


@pytest.mark.parametrize(
    ("error", "outcome"), [(SourceError("gone"), "failed"), (Bug("b"), "bug"), (KeyError("x"), "bug")]
)
def test_a_playbook_that_fails_is_counted_under_what_became_of_it(error: Exception, outcome: str) -> None:
    with pytest.raises(type(error)), timed(f"verb-{outcome}"):
        raise error
    assert (f"verb-{outcome}", outcome) in [labels for labels, _, _ in process_counters.PLAYBOOKS.cumulated()]


async def test_every_request_to_an_api_server_is_counted_with_its_answer(tmp_path: Path) -> None:
    async with ApiServer({"nodes": []}, faults=[Fault("/nodes", "status", status=403)]) as server:
        file = write_kubeconfig(tmp_path, server.url)
        async with await open_cluster(name="counted", kubeconfig=file) as cluster:
            await cluster.list(PODS)
            with pytest.raises(SourceError):
                await cluster.list(NODES)
    async with await open_cluster(name="counted", kubeconfig=file) as cluster:
        with pytest.raises(SourceError):
            await cluster.list(PODS)
    found = {labels[1:]: n for labels, n in process_counters.KUBERNETES_REQUESTS.items() if labels[0] == "counted"}
    assert found == {("list", "200"): 1, ("list", "403"): 1, ("list", "none"): 1}


async def test_without_the_setting_there_is_no_such_path(tmp_path: Path) -> None:
    async with SlackServer() as slack:
        chosen = settings(slack, tmp_path)
        assert chosen.slack
        async with (
            running(chosen, chosen.slack, recorded) as address,
            aiohttp.ClientSession() as session,
            session.get(f"{address}/metrics") as answer,
        ):
            assert answer.status == 404
