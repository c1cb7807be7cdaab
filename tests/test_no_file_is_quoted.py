"""No error repeats a word of a file that may hold credentials, however the file is damaged: shell, Slack and log."""

import asyncio
import logging
import os
import re
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from pydantic import BaseModel

from bot.errors import BotError
from bot.kube.client.connect import known_contexts, open_cluster
from bot.kube.models import NODES
from bot.logs import formatter
from bot.main import running
from bot.settings import load_settings
from bot.settings.schema import Settings
from bot.store.store import open_store
from handlers.cluster_choice import ClusterChoice, open_sources
from sandbox.slack import SlackServer
from sandbox.slack.content import strings_of
from tests.sampling import Sample
from tests.slack.bot import PATIENT, settings

SECRET = "s3cr3t"
KUBECONFIG = f"""\
apiVersion: v1
kind: Config
clusters:
- name: lab
  cluster:
    server: https://127.0.0.1:1
    proxy-url: http://u:{SECRET}@127.0.0.1:1
users:
- name: me
  user:
    token: {SECRET}
    username: u
    password: "{SECRET}"
    client-key-data: {SECRET}
    client-certificate-data: {SECRET}
    as: dev
    as-user-extra: {{team: ["{SECRET}"]}}
contexts:
- name: lab
  context: {{cluster: lab, user: me}}
current-context: lab
"""
PLUGIN = f"""\
clusters: [{{name: lab, cluster: {{server: "https://127.0.0.1:1"}}}}]
users:
- name: me
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: sh
      args: [-c, "echo {SECRET} >&2; echo {SECRET}; exit 3 # {SECRET}"]
      env:
      - name: PASSWORD
        value: {SECRET}
contexts: [{{name: lab, context: {{cluster: lab, user: me}}}}]
current-context: lab
"""
IDENTITY_PROVIDER = f"""\
clusters: [{{name: lab, cluster: {{server: "https://127.0.0.1:1"}}}}]
users:
- name: me
  user:
    auth-provider:
      name: oidc
      config:
        client-id: me
        client-secret: {SECRET}
        id-token: {SECRET}.{SECRET}.{SECRET}
        refresh-token: {SECRET}
        idp-issuer-url: https://u:{SECRET}@127.0.0.1:1
contexts: [{{name: lab, context: {{cluster: lab, user: me}}}}]
current-context: lab
"""
SETTINGS = f"""\
clusters:
  lab:
    kubeconfig: /nonexistent
    prometheus: {{url: "https://127.0.0.1:1", user: u, password: {SECRET}}}
slack:
  bot_token: {SECRET}
  app_token: {SECRET}
  signing_secret: "{SECRET}"
store:
  url: postgresql://u:{SECRET}@127.0.0.1:1/x
oncall:
  channel: C0123ABCD
  token: {SECRET}
  paging:
    pagerduty: {{routing_key: {SECRET}}}
    webhook: {{url: "https://127.0.0.1:1", secret: {SECRET}}}
"""
AROUND = (
    "",
    "\t",
    "\n",
    "\n\t",
    ": ",
    ":",
    "[",
    "{",
    "}",
    '"',
    "'",
    "*",
    "&",
    "!",
    "!!int ",
    "!!binary ",
    "%",
    "@",
    "\\",
)
"""What is written before the secret, or behind it, by mistake."""


def damaged(text: str) -> Iterator[str]:
    """The text, and again with each slip of the hand before, behind and around each secret, or without a space."""
    yield text
    for found in re.finditer(SECRET, text):
        for slip in AROUND:
            yield text[: found.start()] + slip + text[found.start() :]
            yield text[: found.end()] + slip + text[found.end() :]
        line = text.rfind("\n", 0, found.start()) + 1
        yield text[:line] + text[found.start() :]
        yield text[: found.end()]
        yield text[:line] + "  " + text[line:]
        yield text[: found.start()] + f"[{SECRET}]" + text[found.end() :]
        yield text[: found.start()] + f"{{{SECRET}: {SECRET}}}" + text[found.end() :]
    for found in re.finditer(r": (?=\S)", text):
        yield text[: found.start()] + ":" + text[found.end() :]


def told(attempt: Callable[[], object]) -> str:
    """All that an error of ours says, and what a log says of it. Another error is a bug."""
    try:
        attempt()
    except BotError as error:
        record = logging.LogRecord("bot", logging.ERROR, __file__, 1, "it failed", None, (BotError, error, None))
        return f"{error}{''.join(traceback.format_exception(error))}{formatter('json').format(record)}"
    return ""


async def opened(file: Path) -> None:
    async with await open_cluster(kubeconfig=file) as cluster:
        await cluster.list(NODES)


@pytest.mark.parametrize("text", [KUBECONFIG, PLUGIN, IDENTITY_PROVIDER], ids=["token", "plugin", "provider"])
@pytest.mark.process
def test_no_kubeconfig_is_quoted(tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "kubeconfig"
    files = [*damaged(text)]
    errors = 0
    for content in files:
        file.write_text(content)
        for attempt in (lambda: asyncio.run(opened(file)), lambda: known_contexts(file)):
            said = told(attempt)
            errors += bool(said)
            assert SECRET not in said, content
    assert errors > len(files)
    assert SECRET not in caplog.text


def test_no_settings_file_is_quoted(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    for content in damaged(SETTINGS):
        file.write_text(content)
        assert SECRET not in told(lambda: load_settings(file)), content


def keys(model: type[BaseModel], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of every setting, through each way that a value may be."""
    for name, field in model.model_fields.items():
        yield (*path, name)
        for kind in re.findall(r"[A-Za-z]+(?:Settings|Paging)\b", str(field.annotation)):
            inner = next(one for one in models() if one.__name__ == kind)
            through = ("lab",) if "dict[" in str(field.annotation) else ()
            yield from keys(inner, (*path, name, *through))


def models() -> list[type[BaseModel]]:
    found: list[type[BaseModel]] = [*BaseModel.__subclasses__()]
    return found + [below for one in found for below in one.__subclasses__()]


def test_no_value_of_a_setting_is_quoted_whatever_the_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sample: Sample
) -> None:
    file = tmp_path / "settings.yaml"
    paths = [*keys(Settings)]
    assert ("oncall", "paging", "pagerduty", "routing_key") in paths
    for path in sample(paths, 15):
        for value in (SECRET, f"[{SECRET}]", f"{{{SECRET}: {SECRET}}}", f"http://u:{SECRET}@h:{SECRET}/"):
            lines = [f"{'  ' * depth}{key}:" for depth, key in enumerate(path)]
            file.write_text("\n".join(lines) + f" {value}\n")
            assert SECRET not in told(lambda: load_settings(file)), file.read_text()
            name = "HAMI_BOT_" + "__".join(path).upper()
            monkeypatch.setenv(name, value)
            assert SECRET not in told(load_settings), name
            monkeypatch.delenv(name)


@pytest.mark.parametrize("url", [f"postgresql://u:{SECRET}@127.0.0.1:1/x", f"postgresql://u:p@{SECRET}@h/x"])
def test_no_address_of_a_store_is_quoted(url: str) -> None:
    async def attempt() -> None:
        async with open_store(url, patience=0):
            pass

    assert SECRET not in told(lambda: asyncio.run(attempt()))


# ------------------------------------------------------------------------------------------------ every surface

NOT_YAML = KUBECONFIG.replace(f"token: {SECRET}", f"token: [1, password: {SECRET}")


def shell(words: Sequence[str], **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {"PATH": os.defpath, "HOME": "/nonexistent", **environment}
    command = [sys.executable, "-m", "bot", *words]
    return subprocess.run(command, env=variables, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.process
def test_a_shell_is_told_the_place_in_the_kubeconfig_and_not_what_stands_there(tmp_path: Path, lang: str) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(NOT_YAML)
    done = shell(["nodes", "--kubeconfig", str(file), f"--lang={lang}"])
    assert done.returncode == 3
    assert "line 12, column" in done.stderr or "第 12 行" in done.stderr
    assert SECRET not in done.stderr + done.stdout


@pytest.mark.parametrize("proxy", [f"http://u:{SECRET}/x@h:1", f"http://h:{SECRET}"])
@pytest.mark.process
def test_a_proxy_of_the_environment_that_is_no_address_is_told_and_not_quoted(tmp_path: Path, proxy: str) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(KUBECONFIG.replace("proxy-url", "no-proxy-url").replace(f": {SECRET}", ": c2VjcmV0"))
    file.write_text(re.sub(r"    client-.*\n", "", file.read_text()).replace("127.0.0.1", "192.0.2.1"))
    done = shell(["nodes", "--kubeconfig", str(file)], HTTPS_PROXY=proxy)
    assert done.returncode == 3
    assert "HTTPS_PROXY" in done.stderr
    assert SECRET not in done.stderr


async def test_slack_and_the_log_are_told_the_place_and_not_what_stands_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "kubeconfig"
    caplog.set_level(logging.INFO)
    seen: list[str] = []
    async with asyncio.timeout(180), SlackServer(deadline_s=60) as slack:
        wanted = settings(slack, tmp_path, "socket")
        async with running(wanted, wanted.slack, lambda _: open_sources(ClusterChoice(kubeconfig=file)), PATIENT):
            for text, said in ((NOT_YAML, "line 12, column"), (PLUGIN, "it ended with exit code 3")):
                file.write_text(text)
                await slack.command("ada", "gpu-oncall", "nodes")
                answer = await slack.wait_for(channel="gpu-oncall", containing=said, user="ada")
                seen.extend(strings_of(answer))
    assert SECRET not in "\n".join(seen)
    assert SECRET not in caplog.text
