"""A server that answers every request with an error: no verb has a report to give."""

import asyncio
from pathlib import Path

import pytest
from aiohttp import web

from bot.errors import SourceError
from bot.kube.client.connect import open_cluster
from bot.texts import in_english
from playbooks.fit.manifest import Manifest
from playbooks.own.discovery import find
from playbooks.playbook import Sources, load
from sandbox.apiserver import Fault
from tests.kube.live_servers import serving, write_kubeconfig
from tests.playbooks.world import answer_live, cluster, codes, pod, record

POD = "{kind: Pod, apiVersion: v1, metadata: {name: x}, spec: {containers: [{name: a}]}}"
WORDS = {
    "why": {"pod": "ml/x"},
    "logs": {"pod": "ml/x"},
    "fit": {"file": [Manifest("pod.yaml", POD)]},
    "profile": {"words": ["heap"]},
}
ANSWERS = {
    "500": {"text": '{"kind": "Status", "message": "etcd is away"}', "status": 500},
    "502": {"text": "<html>bad gateway</html>", "status": 502},
    "login": {"text": "<html>please log in</html>", "content_type": "text/html"},
}


@pytest.mark.parametrize("answered", ANSWERS)
@pytest.mark.parametrize("verb", sorted(load()))
@pytest.mark.sampled(len(load()) * len(ANSWERS))  # a new verb has to be among them
def test_a_verb_that_can_read_nothing_at_all_says_so_with_exit_code_3(tmp_path: Path, verb: str, answered: str) -> None:
    async def say(_: web.Request) -> web.Response:
        return web.Response(**ANSWERS[answered])

    async def ask() -> None:
        async with serving(say) as url, await open_cluster(kubeconfig=write_kubeconfig(tmp_path, url)) as reached:
            playbook = find(verb)
            await playbook.gather(playbook.request(**WORDS.get(verb, {})), Sources(reached, ports=reached))

    with pytest.raises(SourceError) as told:
        asyncio.run(ask())
    assert told.value.exit_code == 3
    assert in_english(told.value.message).startswith("GET /")
    assert in_english(told.value.hint)


async def test_a_pod_whose_events_were_read_has_a_report_though_it_was_not(tmp_path: Path) -> None:
    recording = record(tmp_path, cluster(pod("wl")))
    report = await answer_live("why", recording, tmp_path, Fault(r"/pods", "status", status=503), pod="ml/wl")
    assert codes(report) == ["not-enough-evidence"]
