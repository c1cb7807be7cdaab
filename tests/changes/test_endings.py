"""A raised verbosity ends early when its container logs so much that the kubelet's rotation cannot keep up."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from bot.changes.record import Record
from bot.kube.client.connect import open_cluster
from bot.kube.hami_pods import EXTENDER_CONTAINER, KUBE_SCHEDULER_CONTAINER
from bot.kube.models import PODS
from handlers.changes.scheduler_log import LOUD_FOR_S, LOUDEST_BYTES_S, why_to_end
from playbooks.playbook import Sources
from sandbox.apiserver import ApiServer
from tests.changes.records import OF_SCHEDULER
from tests.slack.bot import RECORDING

NAMESPACE, POD = "hami-system", "hami-scheduler"
LEVEL = msgspec.structs.replace(
    OF_SCHEDULER, old="2", new="4", raised_at="2026-11-21T11:55:00Z", at="2026-11-21T12:05:00Z"
)
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
LINE = b"I1121 11:59:59.000000       1 scheduler.go:1] " + b"x" * 977 + b"\n"


def why_ended(folder: Path, kib: int, container: str = EXTENDER_CONTAINER, record: Record = LEVEL) -> str:
    """After the scheduler's pod logged so much in the last ten seconds."""

    async def run() -> str:
        async with ApiServer.from_recording(RECORDING, shift_to=NOW) as server:
            config = folder / "kubeconfig"
            config.write_text(server.kubeconfig())  # a few lines
            async with await open_cluster(kubeconfig=config) as cluster:
                [pod] = [pod.name for pod in await cluster.list(PODS, NAMESPACE) if pod.name.startswith(POD)]
                server.append_log(NAMESPACE, pod, container, LINE * kib)

                @asynccontextmanager
                async def sources() -> AsyncGenerator[Sources]:
                    yield Sources(cluster)

                return await why_to_end(sources, record)

    return asyncio.run(run())


MOST_KIB = LOUDEST_BYTES_S * LOUD_FOR_S // 1024


def test_more_than_a_mebibyte_a_second_ends_it(tmp_path: Path) -> None:
    assert why_ended(tmp_path, MOST_KIB + 1).endswith("logged more than 1024 KiB/s")


@pytest.mark.parametrize(
    ("kib", "container"), [(MOST_KIB // 2, EXTENDER_CONTAINER), (MOST_KIB + 1, KUBE_SCHEDULER_CONTAINER)]
)
def test_less_does_not_nor_what_another_container_logs(tmp_path: Path, kib: int, container: str) -> None:
    assert why_ended(tmp_path, kib, container) == ""
