"""Finding credentials: kubeconfigs of all sorts, tokens that change, exec plugins, and what is said when it fails."""

import asyncio
import base64
import json
import os
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest
import yaml

from bot.errors import SourceError
from bot.kube.client.connect import open_cluster, open_writer
from bot.kube.client.live import Selection
from bot.kube.client.requests import Right
from bot.kube.cluster import LogWanted, PodGet
from bot.kube.models import NODES
from bot.texts import in_english
from sandbox.apiserver import ApiServer
from tests.kube.live_servers import UNUSED, write_kubeconfig

NODE = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "gpu-1"}}


def exec_plugin(folder: Path, script: str) -> dict[str, Any]:
    """A user whose token comes from that shell script."""
    file = folder / "plugin"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o700)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(file)}}


def credential(token: str) -> str:
    answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": token}}
    return json.dumps(answer)


def failure_of(file: Path, context: str = "") -> SourceError:
    async def attempt() -> SourceError:
        with pytest.raises(SourceError) as caught:
            await open_cluster(kubeconfig=file, context=context)
        return caught.value

    return asyncio.run(attempt())


async def test_a_cluster_is_named_after_its_context_and_knows_the_contexts_namespace(tmp_path):
    async with await open_cluster(kubeconfig=write_kubeconfig(tmp_path)) as cluster:
        assert (cluster.name, cluster.namespace) == ("lab", "ml")


def opened_by_default(environment: dict[str, str]) -> dict[str, str]:
    """What a new process finds that is given no kubeconfig: the client reads KUBECONFIG once, when it is imported."""
    script = """if True:
        import asyncio, json, sys
        from bot.errors import SourceError
        from bot.kube.client.connect import open_cluster
        from bot.texts import in_english
        async def main():
            try:
                async with await open_cluster() as cluster:
                    return {"name": cluster.name}
            except SourceError as error:
                return {"message": in_english(error.message), "hint": in_english(error.hint)}
        found = asyncio.run(main())
        modules = [name for name in ("requests", "websocket", "pydantic") if name in sys.modules]
        print(json.dumps(found | {"modules": modules}))
    """
    hidden = ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT")
    inherited = {key: value for key, value in os.environ.items() if key not in hidden}  # noqa: TID251
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=inherited | environment
    )
    assert done.stderr == ""
    return json.loads(done.stdout)


@pytest.mark.process
def test_kubeconfig_may_list_several_files_and_the_parts_of_the_client_that_nobody_uses_are_not_loaded(tmp_path):
    files = [tmp_path / "missing", write_kubeconfig(tmp_path, name="first"), write_kubeconfig(tmp_path, name="second")]
    found = opened_by_default({"KUBECONFIG": os.pathsep.join(map(str, files))})
    assert found == {"name": "first", "modules": []}  # as kubectl: the first file that sets a value


@pytest.mark.process
def test_without_any_configuration_it_is_told_what_to_set(tmp_path):
    found = opened_by_default({"HOME": str(tmp_path)})
    assert found["message"] == (
        f"no cluster is configured: no kubeconfig at {tmp_path}/.kube/config, and the bot is not in a pod with a "
        "service account (Service host/port is not set.)"
    )
    assert found["hint"] == "set KUBECONFIG, or name a file with --kubeconfig, or read a recording with --recording"


def test_the_rest_of_the_official_client_still_works():
    assert not [finder for finder in sys.meta_path if "bot." in getattr(finder, "__module__", "")]
    import kubernetes.client.rest
    import kubernetes.dynamic

    assert kubernetes.client.CoreV1Api.__name__ == "CoreV1Api"
    assert issubclass(kubernetes.client.rest.ApiException, Exception)
    assert kubernetes.dynamic.DynamicClient.__module__ == "kubernetes.dynamic.client"
    assert callable(kubernetes.config.load_kube_config)
    assert kubernetes.aio.watch.Watch.__module__ == "kubernetes.aio.watch.watch"
    assert isinstance(kubernetes.aio.config.kube_config.ApiClient(), kubernetes.aio.client.ApiClient)


DEPLOYMENT = {"metadata": {"name": "hami-scheduler", "namespace": "kube-system"}, "spec": {"replicas": 1}}
POD = {"metadata": {"name": "p", "namespace": "ml"}, "spec": {"containers": [{"name": "main"}]}}


async def everything_asked(file: Path) -> None:
    """A request of each kind: they are sent at once, whatever they are answered."""
    wanted = LogWanted("ml", "p", "main", b"")
    async with await open_cluster(kubeconfig=file) as cluster, await open_writer(kubeconfig=file) as writer:
        reads = [
            cluster.list(NODES),
            cluster.get(NODES, "gpu-1"),
            cluster.watch(Selection(NODES), "1", lambda _: None, for_s=1, silence_s=30),
            cluster.log(wanted),
            cluster.pod_get(PodGet("ml", "p", "http", 1, "metrics")),
            cluster.may(Right("list", "nodes")),
        ]
        writes = [
            writer.deployment("kube-system", "hami-scheduler"),
            writer.patch_deployment("kube-system", "hami-scheduler", ({"op": "test", "path": "/x", "value": 1},)),
            writer.create_lease("ml", {"metadata": {"name": "hami-bot"}}),
            writer.takes_verbosity("ml", "p"),
        ]
        done = await asyncio.gather(*reads, *writes, return_exceptions=True)
        assert all(isinstance(one, SourceError) for one in done if isinstance(one, BaseException))


async def test_every_request_says_whom_the_kubeconfig_acts_as(tmp_path):
    acting = {"as": "system:serviceaccount:ml:dev", "as-groups": ["g1", "g2"], "as-uid": "7"}
    user = {"token": "t", **acting, "as-user-extra": {"Acme/Team": ["ml", "infra"]}}
    objects = {"nodes": [NODE], "pods": [POD], "deployments.apps": [DEPLOYMENT]}
    async with ApiServer(objects, token="t") as server:
        await everything_asked(write_kubeconfig(tmp_path, server.url, user=user))
        requests = server.requests
    assert {request.method for request in requests} == {"GET", "PATCH", "POST"}
    assert len(requests) >= 10
    for request in requests:
        told = [(name, value) for name, value in request.headers.items() if name.startswith("Impersonate-")]
        assert sorted(told) == [
            ("Impersonate-Extra-acme%2Fteam", "infra"),
            ("Impersonate-Extra-acme%2Fteam", "ml"),
            ("Impersonate-Group", "g1"),
            ("Impersonate-Group", "g2"),
            ("Impersonate-Uid", "7"),
            ("Impersonate-User", "system:serviceaccount:ml:dev"),
        ]


@pytest.mark.parametrize(
    ("acting", "said"),
    [
        ({"as-groups": ["g1"]}, "as-groups, as-uid or as-user-extra without as"),
        ({"as": "dev\nImpersonate-Group: system:masters"}, "is not one line of text"),
        ({"as": ["dev"]}, "Expected `str | null`, got `array` - at `$.users[0].user.as`"),
    ],
)
def test_whom_no_request_could_act_as_is_told(tmp_path, acting, said):
    assert said in in_english(failure_of(write_kubeconfig(tmp_path, user={"token": "t", **acting})).message)


async def test_a_plugin_s_path_is_relative_to_the_kubeconfig_as_for_kubectl(tmp_path):
    plugin = exec_plugin(tmp_path, f"echo '{credential('from the plugin')}'")
    plugin["exec"]["command"] = "./plugin"
    async with (
        ApiServer({"nodes": [NODE]}) as server,
        await open_cluster(kubeconfig=write_kubeconfig(tmp_path, server.url, user=plugin)) as cluster,
    ):
        await cluster.list(NODES)
        assert server.requests[0].headers["Authorization"] == "Bearer from the plugin"


async def test_a_plugin_that_wants_to_know_the_cluster_is_told_its_address(tmp_path):
    told = tmp_path / "told"
    plugin = exec_plugin(tmp_path, f"echo \"$KUBERNETES_EXEC_INFO\" > '{told}'; echo '{credential('t')}'")
    plugin["exec"]["provideClusterInfo"] = True
    await (await open_cluster(kubeconfig=write_kubeconfig(tmp_path, user=plugin, extensions=[]))).aclose()
    assert json.loads(told.read_text())["spec"]["cluster"] == {"server": UNUSED}
    del plugin["exec"]["provideClusterInfo"]
    await (await open_cluster(kubeconfig=write_kubeconfig(tmp_path, user=plugin))).aclose()
    assert "cluster" not in json.loads(told.read_text())["spec"]


async def test_a_plugin_is_told_the_certificates_of_a_file_and_the_cluster_s_own_settings_for_it(tmp_path):
    told = tmp_path / "told"
    plugin = exec_plugin(tmp_path, f"echo \"$KUBERNETES_EXEC_INFO\" > '{told}'; echo '{credential('t')}'")
    plugin["exec"]["provideClusterInfo"] = True
    (tmp_path / "ca.pem").write_text("of the cluster")
    settings = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "lab"}}
    others = {"name": "minikube.sigs.k8s.io", "extension": {"provider": "minikube"}}
    cluster = {"certificate-authority": "ca.pem", "extensions": [others, settings]}
    config = write_kubeconfig(tmp_path, "http://127.0.0.1:1", user=plugin, **cluster)
    await (await open_cluster(kubeconfig=config)).aclose()
    shown = json.loads(told.read_text())["spec"]["cluster"]
    assert base64.b64decode(shown.pop("certificate-authority-data")) == b"of the cluster"
    assert shown == {"server": "http://127.0.0.1:1", "config": {"audience": "lab"}}


@pytest.mark.process
def test_what_a_plugin_asks_of_a_person_is_on_the_terminal_while_it_waits(tmp_path):
    go_on = tmp_path / "go on"
    os.mkfifo(go_on)
    plugin = exec_plugin(tmp_path, f"echo 'open https://idp.example and enter WXYZ' >&2; read go < '{go_on}'; exit 3")
    command = [sys.executable, "-m", "bot", "nodes", "--kubeconfig", str(write_kubeconfig(tmp_path, user=plugin))]
    ours, theirs = os.openpty()
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        while b"enter WXYZ" not in shown:  # ends with OSError, should the process end without it
            shown += os.read(ours, 4096)
        go_on.write_text("\n")
    os.close(ours)
    assert process.returncode == 3


@pytest.mark.process
def test_what_a_plugin_says_is_nowhere_when_there_is_no_terminal(tmp_path):
    plugin = exec_plugin(tmp_path, "echo 'enter WXYZ' >&2; exit 3")
    command = [sys.executable, "-m", "bot", "nodes", "--kubeconfig", str(write_kubeconfig(tmp_path, user=plugin))]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "it ended with exit code 3" in done.stderr
    assert "WXYZ" not in done.stderr + done.stdout


async def test_a_token_file_that_changes_is_read_again(tmp_path):
    token = tmp_path / "token"
    token.write_text("first\n")
    async with ApiServer({"nodes": [NODE]}, token="first") as server:
        file = write_kubeconfig(tmp_path, server.url, user={"tokenFile": "token"})
        async with await open_cluster(kubeconfig=file) as cluster:
            await cluster.list(NODES)
            server.token = "second"
            token.write_text("second\n")
            await cluster.list(NODES)
            await cluster.list(NODES)
            assert [request.headers["Authorization"] for request in server.requests] == [
                "Bearer first",
                "Bearer first",
                "Bearer second",
                "Bearer second",
            ]


async def test_reads_that_meet_an_old_token_together_run_the_plugin_once(tmp_path):
    answer, runs = tmp_path / "answer", tmp_path / "runs"
    answer.write_text(credential("first"))
    user = exec_plugin(tmp_path, f"echo run >> {runs}; cat {answer}")
    async with (
        ApiServer({"nodes": [NODE]}, token="first") as server,
        await open_cluster(kubeconfig=write_kubeconfig(tmp_path, server.url, user=user)) as cluster,
    ):
        await cluster.list(NODES)
        server.token = "second"
        answer.write_text(credential("second"))
        found = await asyncio.gather(*(cluster.get(NODES, "gpu-1") for _ in range(5)))
        assert [node.name for node in found] == ["gpu-1"] * 5
    assert runs.read_text() == "run\n" * 2


async def test_an_open_cluster_stays_with_its_context_when_the_file_names_another(tmp_path):
    async with ApiServer({"nodes": [NODE]}, token="first") as server:
        file = write_kubeconfig(tmp_path, server.url, user={"token": "first"})
        async with await open_cluster(kubeconfig=file) as cluster:
            server.token = "second"
            content = yaml.safe_load(write_kubeconfig(tmp_path, server.url, user={"token": "second"}).read_text())
            content["clusters"].append({"name": "elsewhere", "cluster": {"server": UNUSED}})
            content["contexts"].append({"name": "elsewhere", "context": {"cluster": "elsewhere", "user": "me"}})
            file.write_text(yaml.safe_dump(content | {"current-context": "elsewhere"}))
            assert [node.name for node in await cluster.list(NODES)] == ["gpu-1"]


def test_a_plugin_that_fails_is_told_by_its_exit_code_and_its_words_are_not_repeated(tmp_path, caplog):
    user = exec_plugin(tmp_path, "echo 'ERROR: session s3cret has ended' >&2; exit 3")
    error = failure_of(write_kubeconfig(tmp_path, user=user))
    assert in_english(error.message) == (
        f"context 'lab' in {tmp_path}/kubeconfig: no credentials from its exec plugin: it ended with exit code 3"
    )
    assert in_english(error.hint) == "run the plugin by hand: is it installed, on PATH, and logged in?"
    assert "s3cret" not in "".join(traceback.format_exception(error)) + caplog.text


async def test_a_plugin_that_floods_stderr_gives_its_credentials_all_the_same(tmp_path):
    user = exec_plugin(tmp_path, f"head -c 500000 /dev/zero >&2; echo '{credential('t')}'")
    async with await open_cluster(kubeconfig=write_kubeconfig(tmp_path, user=user)) as cluster:
        assert cluster.name == "lab"


def test_a_command_line_in_place_of_a_command_is_not_repeated(tmp_path):
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-plugin --password s3cret"}}
    error = failure_of(write_kubeconfig(tmp_path, user=user))
    assert in_english(error.message).endswith("exec plugin: no-such-plugin: No such file or directory")
    assert "s3cret" not in "".join(traceback.format_exception(error))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("contexts: [", "not a kubeconfig: line 2, column 1: did not find expected node content"),
        ("", "not a kubeconfig: Expected `object`, got `null`"),
        ("hello", "not a kubeconfig: Expected `object`, got `str`"),
        (
            "contexts: lab\ncurrent-context: lab",
            "not a kubeconfig: Expected `array | null`, got `str` - at `$.contexts`",
        ),
        ("{}", "no current-context is set"),
        ("\x00", "not a kubeconfig: a character that YAML does not allow, at position 1"),
    ],
)
def test_a_file_that_is_no_kubeconfig_is_told_in_what(tmp_path, text, said):
    file = tmp_path / "config"
    file.write_text(text)
    assert in_english(failure_of(file).message).startswith(f"{file}: {said}")


@pytest.mark.parametrize(
    ("server", "more", "said"),
    [
        (UNUSED, {"user": {"exec": {"apiVersion": "v1", "command": "echo"}}}, "it printed no ExecCredential"),
        (6443, {}, "Expected `str`, got `int` - at `$.clusters[0].cluster.server`"),
        (UNUSED, {"certificate-authority": "nope.pem"}, "a file does not exist that it names (certificate-authority,"),
        ("127.0.0.1:6443", {}, "its server is no http(s) address"),
        (UNUSED, {"insecure-skip-tls-verify": "false"}, "Expected `bool | null`, got `str`"),
    ],
)
def test_what_a_kubeconfig_holds_that_cannot_be_used_is_told(tmp_path, server, more, said):
    assert said in in_english(failure_of(write_kubeconfig(tmp_path, server, **more)).message)


def test_a_context_that_does_not_exist_is_answered_with_those_that_do(tmp_path):
    file = write_kubeconfig(tmp_path)
    error = failure_of(file, context="prod")
    assert in_english(error.message) == f"{file}: no context 'prod'"
    assert in_english(error.hint) == "contexts there: lab"


@pytest.mark.parametrize("server", ["https://u:s3cret@127.0.0.1:1", "https://u:s3cret/@127.0.0.1", "https://h:s3cret"])
def test_an_address_with_a_password_is_told_and_not_repeated(tmp_path, server):
    error = failure_of(write_kubeconfig(tmp_path, server))
    assert "server" in in_english(error.message)
    assert "s3cret" not in "".join(traceback.format_exception(error))


@pytest.mark.parametrize("token", ["t\ns3cret", "t\x7fs3cret"])
async def test_a_token_that_no_header_can_have_is_told_and_not_repeated(tmp_path, token):
    async with await open_cluster(kubeconfig=write_kubeconfig(tmp_path, user={"token": token})) as cluster:
        with pytest.raises(SourceError, match="the token is not one line of text") as caught:
            await cluster.list(NODES)
        assert "s3cret" not in "".join(traceback.format_exception(caught.value))


def test_an_authority_that_is_no_certificate_is_told(tmp_path):
    file = write_kubeconfig(tmp_path, **{"certificate-authority-data": base64.b64encode(b"no certificate").decode()})
    error = failure_of(file)
    assert in_english(error.message).startswith(f"the certificates of context 'lab' in {file} cannot be loaded:")
    assert in_english(error.hint).endswith("must hold certificates in PEM form")
