"""The real kubectl works with the sandbox's API server, as with any other."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from sandbox.apiserver import ApiServer, Rule, Timing

KUBECTL = shutil.which("kubectl")
CASE = Path(__file__).parents[1] / "cases" / "hami-2.10" / "recording.tar.gz"
PATIENCE_S = 120
SCHEDULER = "app.kubernetes.io/component=hami-scheduler"

pytestmark = [pytest.mark.process, pytest.mark.skipif(KUBECTL is None, reason="kubectl is not on the PATH")]


class Run(NamedTuple):
    code: int
    out: str
    error: str

    @property
    def rows(self) -> list[list[str]]:
        return [line.split() for line in self.out.splitlines()]


class Kubectl:
    """Runs kubectl against one server, with a home of its own."""

    def __init__(self, config: Path) -> None:
        self._environment = {"KUBECONFIG": str(config), "HOME": str(config.parent), "PATH": "/usr/bin:/bin"}

    async def __call__(self, *words: str) -> Run:
        async with self.started(*words) as process:
            return await _end(process)

    @asynccontextmanager
    async def started(self, *words: str) -> AsyncIterator[asyncio.subprocess.Process]:
        """A kubectl that runs; it is killed when the caller leaves before it has ended."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            str(KUBECTL), *words, stdout=pipe, stderr=pipe, env=self._environment
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.communicate()


async def _end(process: asyncio.subprocess.Process) -> Run:
    out, error = await process.communicate()
    return Run(process.returncode or 0, out.decode(), error.decode())


def with_kubectl(folder: Path, use: Callable[[ApiServer, Kubectl], Awaitable[Any]], **options: Any) -> Any:
    """What `use` returns; it gets a server of a recorded cluster, and a kubectl for it."""

    async def run() -> Any:
        async with ApiServer.from_recording(CASE, **options) as server:
            config = folder / "kubeconfig"
            config.write_text(server.kubeconfig(namespace="hami-system"))
            return await asyncio.wait_for(use(server, Kubectl(config)), PATIENCE_S)

    return asyncio.run(run())


def test_it_reads(tmp_path):
    async def use(_: ApiServer, kubectl: Kubectl) -> None:
        nodes = await kubectl("get", "nodes")
        assert nodes.rows[0] == ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]
        assert nodes.rows[1][:3] == ["cp-node-01", "Ready", "control-plane"]
        assert "OS-IMAGE" in (await kubectl("get", "no", "-o", "wide")).rows[0]
        pods = await kubectl("get", "pods", "-n", "ml", "s03-card-insufficient-memory")
        assert pods.rows[1][1:3] == ["0/1", "Pending"]
        assert (await kubectl("get", "deploy,rs,lease", "-o", "name")).out.splitlines()[:2] == [
            "deployment.apps/hami-scheduler",
            "replicaset.apps/hami-scheduler-995f44d84",
        ]
        pod = json.loads((await kubectl("get", "pod", "-l", SCHEDULER, "-o", "json")).out)["items"][0]
        assert pod["spec"]["nodeName"] == "cp-node-01"
        assert "kind: Deployment" in (await kubectl("get", "deploy", "hami-scheduler", "-o", "yaml")).out
        events = await kubectl("get", "events", "-n", "ml", "--field-selector", "reason=FilteringFailed")
        assert events.rows[0] == ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
        described = (await kubectl("describe", "pod", "-n", "ml", "s03-card-insufficient-memory")).out
        assert "FilteringFailed" in described
        assert "RollingUpdate" in (await kubectl("describe", "deploy", "hami-scheduler")).out
        assert "gpu-node-05" in (await kubectl("describe", "node", "gpu-node-05")).out
        log = await kubectl("logs", "deploy/hami-scheduler", "-c", "vgpu-scheduler-extender", "--tail=3")
        assert len(log.out.splitlines()) == 3

    with_kubectl(tmp_path, use)


def test_it_is_told_what_is_not_there(tmp_path):
    async def use(_: ApiServer, kubectl: Kubectl) -> list[str]:
        asked = [("get", "pod", "nope"), ("get", "things"), ("top", "nodes"), ("logs", "deploy/hami-scheduler")]
        return [(await kubectl(*words)).error.strip() for words in asked]

    pod, kind, top, log = with_kubectl(tmp_path, use)
    assert pod == 'Error from server (NotFound): pods "nope" not found'
    assert kind == 'error: the server doesn\'t have a resource type "things"'
    assert top == "error: Metrics API not available"
    assert "kube-scheduler" in log  # it picks the first of the containers, and says so


def test_it_asks_for_its_rights(tmp_path):
    async def use(_: ApiServer, kubectl: Kubectl) -> None:
        assert (await kubectl("auth", "can-i", "patch", "deployments")).out == "no\n"
        assert (await kubectl("auth", "can-i", "get", "pods", "--subresource=log")).out == "yes\n"
        assert "pods/log" in (await kubectl("auth", "can-i", "--list")).out
        refused = await kubectl("annotate", "deploy", "hami-scheduler", "a=b")
        assert "cannot get resource" in refused.error

    with_kubectl(tmp_path, use, granted=[Rule(["get", "list"], ["pods", "pods/log"], [""])])


def test_it_changes_labels_annotations_and_scale(tmp_path):
    async def use(server: ApiServer, kubectl: Kubectl) -> None:
        await kubectl("label", "node", "gpu-node-05", "team=ml")
        await kubectl("annotate", "node", "gpu-node-05", "hami.io/x=1")
        await kubectl("scale", "deploy", "hami-scheduler", "--replicas=2")
        node = server.object("nodes", "", "gpu-node-05")
        deployment = server.object("deployments.apps", "hami-system", "hami-scheduler")
        assert node
        assert (node["metadata"]["labels"]["team"], node["metadata"]["annotations"]["hami.io/x"]) == ("ml", "1")
        assert deployment
        assert deployment["spec"]["replicas"] == 2

    with_kubectl(tmp_path, use)


PLACE = "/spec/template/spec/containers/1/command/14"
PATCHES = {
    "json": [{"op": "test", "path": PLACE, "value": "-v=4"}, {"op": "replace", "path": PLACE, "value": "-v=5"}],
    "merge": {"metadata": {"annotations": {"note": "merged"}}},
    "strategic": {"spec": {"template": {"spec": {"containers": [{"name": "kube-scheduler", "args": ["-v=5"]}]}}}},
}


def test_it_patches_and_waits_for_the_rollout(tmp_path):
    async def use(_: ApiServer, kubectl: Kubectl) -> None:
        for kind, patch in PATCHES.items():
            done = await kubectl("patch", "deploy", "hami-scheduler", "--type", kind, "-p", json.dumps(patch))
            assert done.out == "deployment.apps/hami-scheduler patched\n"
        again = await kubectl("patch", "deploy", "hami-scheduler", "--type", "json", "-p", json.dumps(PATCHES["json"]))
        assert "the server rejected our request due to an error in our request" in again.error
        status = await kubectl("rollout", "status", "deploy/hami-scheduler", "--timeout=60s")
        assert status.out.endswith('deployment "hami-scheduler" successfully rolled out\n')
        shown = await kubectl("get", "pods", "-l", SCHEDULER, "-o", "json")
        kept = [pod for pod in json.loads(shown.out)["items"] if "deletionTimestamp" not in pod["metadata"]]
        assert [pod["spec"]["containers"][0]["args"] for pod in kept] == [["-v=5"]]

    with_kubectl(tmp_path, use, timing=Timing(0.1, 0.1, 0.1))


def test_it_follows_a_log_and_watches_pods_while_one_is_deleted(tmp_path):
    async def use(server: ApiServer, kubectl: Kubectl) -> None:
        [pod] = (await kubectl("get", "pods", "-l", SCHEDULER, "-o", "name")).out.split()
        name = pod.removeprefix("pod/")
        async with (
            kubectl.started("logs", "-f", pod, "-c", "vgpu-scheduler-extender", "--tail=1") as follow,
            kubectl.started("get", "pods", "-l", SCHEDULER, "-w") as watch,
        ):
            assert follow.stdout
            assert watch.stdout
            assert await follow.stdout.readline()  # now both of them are reading
            assert [(await watch.stdout.readline()).split()[0] for _ in "ab"] == [b"NAME", name.encode()]
            server.append_log("hami-system", name, "vgpu-scheduler-extender", b"the last words\n")
            assert (await kubectl("delete", pod)).out == f'pod "{name}" deleted\n'
            followed = await _end(follow)
            assert (followed.code, followed.out) == (0, "the last words\n")
            seen: dict[str, list[str]] = {}
            while "Running" not in seen.get(next(reversed(seen), ""), []) or name in list(seen)[-1:]:
                row = (await watch.stdout.readline()).decode().split()
                seen.setdefault(row[0], []).append(row[2])
            assert seen[name][0] == "Terminating"

    with_kubectl(tmp_path, use, timing=Timing(0.1, 0.1, 0.1))
