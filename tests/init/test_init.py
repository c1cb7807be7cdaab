"""`hami-bot init` asks, checks each answer, and writes files that the bot and the chart take."""

import asyncio
import json
import os
import pty
import select
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

import click
import pytest
import yaml
from msgspec import structs

from bot.errors import UsageError
from bot.settings import load_settings
from bot.texts import Texts, in_english
from handlers.cluster_choice import ClusterChoice
from handlers.doctor.checks import examine
from handlers.doctor.links import has_failed
from handlers.init import CheckFailed, Dialog, Files, Given
from handlers.manifest import create_link, manifest
from handlers.shell_grammar import build_grammar
from sandbox.apiserver import ApiServer
from sandbox.slack import SlackServer
from tests.chart import environment, manifests, of_kind, rendered
from tests.doctor.support import RECORDING

SAY = Texts("en")
ROOM = "C0GPUONC01"
DAILY = "daily 08:30 Asia/Shanghai"
NOTHING = ("", "", "")
"""No on-call channel, no operators and no digest."""


class Servers(NamedTuple):
    """A workspace and a cluster behind sockets, in a thread of their own: the command has its own event loops."""

    slack: SlackServer
    kubeconfig: str


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    stack = AsyncExitStack()

    async def start() -> Servers:
        slack = await stack.enter_async_context(SlackServer())
        api = await stack.enter_async_context(ApiServer.from_recording(RECORDING))
        return Servers(slack, api.kubeconfig())

    try:
        yield asyncio.run_coroutine_threadsafe(start(), loop).result()
        asyncio.run_coroutine_threadsafe(stack.aclose(), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class World(NamedTuple):
    """One run: `given` is complete, so that nobody has to be asked."""

    servers: Servers
    folder: Path
    given: Given

    @property
    def files(self) -> Files:
        return Files.of(self.given.out)

    def wrote(self) -> list[Path]:
        return self.files.existing()


@pytest.fixture
def world(servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    slack = servers.slack
    for name, text in {"bot": slack.bot_token, "app": slack.app_token, "kubeconfig": servers.kubeconfig}.items():
        (tmp_path / name).write_text(f"{text}\n")
    monkeypatch.setenv("HAMI_BOT_SLACK__API_URL", slack.api_url)
    files = {"bot_token_file": tmp_path / "bot", "app_token_file": tmp_path / "app"}
    given = Given(**files, kubeconfig=tmp_path / "kubeconfig", channel=ROOM, out=tmp_path / "out")
    return World(servers, tmp_path, given)


class Typed:
    """Somebody at the terminal, who types these answers one after the other; `asked` are the questions."""

    def __init__(self, *answers: str) -> None:
        self._answers = iter(answers)
        self.asked: list[str] = []

    def _next(self, question: str) -> str:
        self.asked.append(question)
        return next(self._answers)

    def hidden(self, question: str) -> str:
        return self._next(question)

    def line(self, question: str, default: str) -> str:
        return self._next(question) or default

    def agrees(self, question: str) -> bool:
        return self._next(question) == "y"


# ---------------------------------------------------------------------------------------------------- what is written


def test_with_everything_given_nobody_is_asked_and_the_bot_takes_the_settings(world: World) -> None:
    told = Dialog(world.given, None, SAY).set_up()
    assert f"hami-bot serve --config {world.files.settings}" in told
    assert "create role hami-bot-workload-logs --verb=get --resource=pods/log" in told
    settings = load_settings(world.files.settings)
    assert settings
    assert settings.slack
    assert settings.slack.bot_token.get_secret_value() == world.servers.slack.bot_token
    (name,) = settings.clusters
    assert settings.channels[ROOM].cluster == name
    assert not has_failed(asyncio.run(examine(ClusterChoice(config=world.files.settings))))


def test_every_file_is_readable_by_its_owner_alone(world: World) -> None:
    Dialog(world.given, None, SAY).set_up()
    assert [path.stat().st_mode & 0o777 for path in world.files] == [0o600] * 3
    assert sorted(path.name for path in world.given.out.iterdir()) == sorted(path.name for path in world.files)


def test_the_chart_takes_the_values_and_they_hold_no_token(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    Dialog(structs.replace(world.given, cluster="lab"), None, SAY).set_up()
    text = world.files.values.read_text()
    assert "xoxb" not in text
    assert "xapp" not in text
    values = yaml.safe_load(text)
    (config,) = yaml.safe_load_all(rendered(values)["config.yaml"])
    inside = world.folder / "settings.yaml"
    inside.write_text(config["data"]["settings.yaml"])
    monkeypatch.setenv("HAMI_BOT_SLACK__BOT_TOKEN", "xoxb-1")
    monkeypatch.setenv("HAMI_BOT_SLACK__APP_TOKEN", "xapp-1")
    settings = load_settings(inside)
    assert settings
    assert settings.channels[ROOM].cluster == "lab"
    assert settings.clusters["lab"].kubeconfig is None
    roles = [role for role in of_kind("Role", manifests(values)) if role["metadata"]["namespace"] == "hami-system"]
    assert roles


def test_the_secret_is_the_one_that_the_chart_names(world: World) -> None:
    Dialog(world.given, None, SAY).set_up()
    secret = yaml.safe_load(world.files.secret.read_text())
    wanted = environment(manifests(yaml.safe_load(world.files.values.read_text())))
    for variable in ("HAMI_BOT_SLACK__BOT_TOKEN", "HAMI_BOT_SLACK__APP_TOKEN"):
        named = wanted[variable]["valueFrom"]["secretKeyRef"]
        assert named["name"] == secret["metadata"]["name"]
        assert named["key"] in secret["stringData"]


def test_with_operators_the_chart_gives_the_right_to_change_and_on_call_needs_no_secret(world: World) -> None:
    given = structs.replace(world.given, oncall_channel=ROOM, operators="U0ADA00001,S0ADMINS01", digest=DAILY)
    Dialog(given, None, SAY).set_up()
    values = yaml.safe_load(world.files.values.read_text())
    assert values["changes"] == {"enabled": True}
    assert values["settings"]["access"] == {"operators": ["U0ADA00001", "S0ADMINS01"]}
    assert values["settings"]["oncall"] == {"channel": ROOM}
    assert "HAMI_BOT_ONCALL__TOKEN" not in environment(manifests(values))


@pytest.mark.process
def test_doctor_and_serve_find_the_settings_where_they_are_started(world: World) -> None:
    Dialog(world.given, None, SAY).set_up()
    words = [sys.executable, "-m", "bot", "doctor", "-o", "json"]
    found = subprocess.run(words, cwd=world.given.out, capture_output=True, text=True, check=False)
    links = {link["name"]: link["state"] for link in json.loads(found.stdout)["links"]}
    assert links["settings"] == "ok"
    assert links["slack-token"] == "ok"
    (world.files.settings).write_text("languge: zh\n")
    words = [sys.executable, "-m", "bot", "serve"]
    refused = subprocess.run(words, cwd=world.given.out, capture_output=True, text=True, check=False)
    assert "hami-bot.yaml" in refused.stderr


def test_asked_in_chinese_the_bot_answers_in_chinese(world: World) -> None:
    Dialog(world.given, None, Texts("zh")).set_up()
    settings = load_settings(world.files.settings)
    assert settings
    assert settings.language == "zh"
    assert yaml.safe_load(world.files.values.read_text())["settings"]["language"] == "zh"


@pytest.mark.parametrize("answer", ["n", None], ids=["asked", "nobody to ask"])
def test_what_is_there_is_not_replaced_without_a_yes(world: World, answer: str | None) -> None:
    world.given.out.mkdir()
    world.files.settings.write_text("mine")
    with pytest.raises(UsageError, match="already there"):
        Dialog(world.given, Typed(answer) if answer else None, SAY).set_up()
    assert world.wrote() == [world.files.settings]
    assert world.files.settings.read_text() == "mine"


def test_what_is_replaced_is_readable_by_its_owner_alone_afterwards(world: World) -> None:
    world.given.out.mkdir()
    world.files.settings.write_text("mine")
    world.files.settings.chmod(0o644)
    Dialog(structs.replace(world.given, force=True), None, SAY).set_up()
    assert load_settings(world.files.settings)
    assert world.files.settings.stat().st_mode & 0o777 == 0o600


# ------------------------------------------------------------------------------------------------------- the questions


def test_all_is_asked_and_a_wrong_answer_is_asked_again(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    slack, given = world.servers.slack, Given(kubeconfig=world.given.kubeconfig, out=world.given.out)
    tokens = ("xoxb-wrong", slack.bot_token, "xapp-wrong", slack.app_token)
    person = Typed(*tokens, "", "general", "C0NOSUCH01", ROOM, ROOM, "ada", "U0ADA00001", "", "daily", DAILY)
    Dialog(given, person, SAY).set_up()
    kinds = [question.split()[0] for question in person.asked]
    rooms = ["Id"] * 4
    assert kinds == ["Bot", "Bot", "App-level", "App-level", "Context", *rooms, "Whom", "Whom", "Who", "When", "When"]
    settings = load_settings(world.files.settings)
    assert settings
    assert {room: one.digest for room, one in settings.channels.items()} == {ROOM: DAILY}
    assert settings.oncall
    assert (settings.oncall.channel, settings.oncall.rota) == (ROOM, ("U0ADA00001",))
    shown = capsys.readouterr()
    assert "failed    slack-token" in shown.err
    assert "ok        socket-mode" in shown.err
    assert "by its id" in shown.err
    assert create_link() in shown.err
    for token in ("xoxb-wrong", "xapp-wrong", slack.bot_token, slack.app_token):
        assert token not in shown.err + shown.out


def test_tokens_of_the_environment_are_not_asked_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HAMI_BOT_SLACK__BOT_TOKEN", world.servers.slack.bot_token)
    monkeypatch.setenv("HAMI_BOT_SLACK__APP_TOKEN", world.servers.slack.app_token)
    person = Typed("", "", "", "")
    Dialog(Given(kubeconfig=world.given.kubeconfig, out=world.given.out), person, SAY).set_up()
    assert [question.split()[0] for question in person.asked] == ["Context", "Id", "Id", "Who"]
    settings = load_settings(world.files.settings)
    assert settings
    assert settings.channels == {}


def test_a_context_that_there_is_not_is_asked_again(world: World) -> None:
    current = yaml.safe_load(world.servers.kubeconfig)["current-context"]
    person = Typed(current, *NOTHING)
    Dialog(structs.replace(world.given, context="gone"), person, SAY).set_up()
    assert current in person.asked[0]


def test_a_cluster_that_does_not_answer_is_used_if_the_person_insists(world: World) -> None:
    kubeconfig = yaml.safe_load(world.servers.kubeconfig)
    kubeconfig["clusters"][0]["cluster"]["server"] = "http://127.0.0.1:1"
    (world.folder / "kubeconfig").write_text(yaml.safe_dump(kubeconfig))
    person = Typed("", "y", *NOTHING)
    Dialog(world.given, person, SAY).set_up()
    assert person.asked[1] == "Use this cluster nevertheless?"
    assert world.wrote() == list(world.files)


# ------------------------------------------------------------------------------------------------------ nobody to ask


@pytest.mark.parametrize(("lacking", "told"), [("bot", "HAMI_BOT_SLACK__BOT_TOKEN"), ("app", "--app-token-file")])
def test_a_token_that_is_missing_is_named_with_both_ways_to_give_it(lacking: str, told: str, world: World) -> None:
    with pytest.raises(UsageError) as raised:
        Dialog(structs.replace(world.given, **{f"{lacking}_token_file": None}), None, SAY).set_up()
    assert told in in_english(raised.value.hint)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"bot_token_file": "xoxb-wrong"}, "slack-token"),
        ({"app_token_file": "xapp-wrong"}, "socket-mode"),
        ({"bot_token_file": "xoxb-\u00e4"}, "visible ASCII"),
        ({"channel": "C0NOSUCH01"}, "slack-channel C0NOSUCH01"),
        ({"oncall_channel": "C0NOSUCH01"}, "slack-channel C0NOSUCH01"),
        ({"operators": "ada"}, "entry 1"),
        ({"digest": "at nine"}, "its time zone"),
        ({"context": "gone"}, "no context 'gone'"),
    ],
)
def test_what_fails_its_check_ends_it_and_nothing_is_written(wrong: dict[str, str], told: str, world: World) -> None:
    given = world.given
    for field, value in wrong.items():
        if field.endswith("_file"):
            (world.folder / field).write_text(value)
        given = structs.replace(given, **{field: world.folder / field if field.endswith("_file") else value})
    with pytest.raises(CheckFailed) as raised:
        Dialog(given, None, SAY).set_up()
    assert told in in_english(raised.value.message)
    assert not any(value in in_english(raised.value.message) for value in wrong.values() if value.startswith("x"))
    assert raised.value.exit_code == 3
    assert world.wrote() == []


# ------------------------------------------------------------------------------------------------------ the command


def test_no_option_takes_a_token_itself() -> None:
    command = build_grammar().get_command(click.Context(click.Command("hami-bot")), "init")
    assert command
    assert {param.name for param in command.params if "token" in (param.name or "")} == {
        "bot_token_file",
        "app_token_file",
    }


def test_the_link_has_the_whole_manifest_in_it() -> None:
    parts = urlsplit(create_link())
    assert f"{parts.scheme}://{parts.netloc}{parts.path}" == "https://api.slack.com/apps"
    query = parse_qs(parts.query)
    assert query["new_app"] == ["1"]
    assert json.loads(query["manifest_json"][0]) == manifest()


@pytest.mark.process
def test_on_a_terminal_what_is_typed_as_a_token_is_not_shown(world: World) -> None:
    kubeconfig = str(world.given.kubeconfig)
    words = ["init", "--out", str(world.given.out), "--kubeconfig", kubeconfig]
    slack = world.servers.slack
    typed = [("not shown): ", slack.bot_token), ("not shown): ", slack.app_token), ("]: ", ""), ("none): ", ROOM)]
    typed += [("none): ", ROOM), ("nobody): ", "U0ADA00001"), ("nobody): ", ""), ("never): ", "")]
    code, seen = on_a_terminal([sys.executable, "-m", "bot", *words], typed)
    assert code == 0, seen
    assert ROOM in seen
    assert slack.bot_token not in seen
    assert slack.app_token not in seen
    assert load_settings(world.files.settings)


def on_a_terminal(words: list[str], typed: list[tuple[str, str]]) -> tuple[int, str]:
    """The exit code, and all that the terminal showed; each answer is typed once its question stands there."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    seen = ""
    try:
        for question, answer in typed:
            before = len(seen)
            seen = until(ours, seen, lambda text, question=question, before=before: question in text[before:])
            os.write(ours, f"{answer}\n".encode())
        seen = until(ours, seen, lambda _: False)
        return process.wait(), seen
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def until(terminal: int, seen: str, holds: Callable[[str], bool]) -> str:
    """What stands there when it holds, or when the process has ended."""
    while not holds(seen):
        select.select([terminal], [], [])
        try:
            piece = os.read(terminal, 4096)
        except OSError:
            return seen
        if not piece:
            return seen
        seen += piece.decode(errors="replace")
    return seen
