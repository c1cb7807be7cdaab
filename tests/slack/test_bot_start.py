"""`hami-bot serve` as a process of its own: what keeps it from starting is said in words, with an exit code."""

import asyncio
import socket
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from sandbox.slack import App, Fault, Seed, SlackServer
from tests.slack.bot import a_process, environment

pytestmark = pytest.mark.process

SECRETS = ("bot_token", "app_token", "signing_secret")


class Ended(NamedTuple):
    code: int
    said: str


async def ended(slack: SlackServer | None, folder: Path, **over: str) -> Ended:
    """`hami-bot serve` with right settings but for `over` (lower-case, after HAMI_BOT_), run until it gives up."""
    async with a_process(environment(folder, slack, **over)) as process:
        try:
            async with asyncio.timeout(180):
                out, err = await process.communicate()
        except TimeoutError:
            process.kill()
            out, err = await process.communicate()
            pytest.fail(f"it did not give up: {err.decode()}")
    said = err.decode()
    assert out == b""
    assert "Traceback" not in said
    assert "Unclosed" not in said
    assert "never retrieved" not in said
    for secret in SECRETS if slack else ():
        assert getattr(slack, secret) not in said
    return Ended(process.returncode or 0, said)


def started(folder: Path, *, seed: Seed | None = None, fault: Fault | None = None, **over: str) -> Ended:
    async def run() -> Ended:
        async with SlackServer(seed=seed, deadline_s=60) as slack:
            if fault:
                slack.faults.append(fault)
            return await ended(slack, folder, **over)

    return asyncio.run(run())


def test_a_revoked_bot_token_is_named(tmp_path: Path) -> None:
    got = started(tmp_path, fault=Fault("revoked"))
    assert got.code == 3
    assert "token_revoked" in got.said
    assert "Install the app" in got.said


@pytest.mark.parametrize(("token", "word"), [("xapp-1-wrong", "invalid_auth"), ("bot", "not_allowed_token_type")])
async def test_a_wrong_app_token_is_named(tmp_path: Path, token: str, word: str) -> None:
    async with SlackServer(deadline_s=60) as slack:
        got = await ended(slack, tmp_path, slack__app_token=slack.bot_token if token == "bot" else token)
    assert got.code == 3
    assert word in got.said
    assert "apps.connections.open" in got.said


def test_a_missing_scope_is_named_with_what_it_is_for(tmp_path: Path) -> None:
    scopes = tuple(scope for scope in App().scopes if scope not in ("commands", "files:write"))
    got = started(tmp_path, seed=Seed(app=replace(App(), scopes=scopes)))
    assert got.code == 3
    assert "files:write (attaches" in got.said
    assert "chat:write (" not in got.said
    assert "reinstall" in got.said


def test_without_tokens_it_says_which_settings_are_missing(tmp_path: Path) -> None:
    got = asyncio.run(ended(None, tmp_path))
    assert got.code == 2
    assert "HAMI_BOT_SLACK__BOT_TOKEN" in got.said


@pytest.mark.parametrize(
    ("over", "told"),
    [
        ({"slack__app_token": ""}, "app_token is missing"),
        ({"slack__mode": "http"}, "signing_secret is missing"),
        ({"slack__mode": "carrier-pigeon"}, "slack.mode"),
        ({"slack__api_url": "http://slack.example/api/"}, "https://"),
        ({"slack__bot_tokne": "x"}, "did you mean bot_token?"),
        ({"http__bind": "8080"}, "HOST:PORT"),
        ({"colour": "blue"}, "HAMI_BOT_COLOUR"),
        ({"store__url": "mysql+nothing://user:geheim@host/x"}, "store"),
        ({"replicas": "2"}, "2 replicas cannot share a SQLite file"),
    ],
)
def test_wrong_settings_are_named(tmp_path: Path, over: dict[str, str], told: str) -> None:
    got = started(tmp_path, **over)
    assert got.code in (2, 3)
    assert told in got.said
    assert "geheim" not in got.said


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        got = started(tmp_path, http__bind=f"127.0.0.1:{taken.getsockname()[1]}")
    assert got.code == 3
    assert "cannot listen on 127.0.0.1" in got.said
    assert "HAMI_BOT_HTTP__BIND" in got.said


def test_a_store_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    got = started(tmp_path, store__url=f"sqlite:///{tmp_path}/file/bot.db")
    assert got.code == 3
    assert "store" in got.said


def test_a_store_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "bot.db").write_text("not a database at all, really" * 100)
    got = started(tmp_path, store__url=f"sqlite:///{tmp_path}/bot.db")
    assert got.code == 3
    assert "damaged" in got.said


@pytest.mark.parametrize("kind", ["outage", "status", "html"])
def test_a_slack_that_is_down_is_named(tmp_path: Path, kind: str) -> None:
    got = started(tmp_path, fault=Fault(kind, where="^api/", times=None))
    assert got.code == 3
    assert "auth.test" in got.said
    assert "slack-status.com" in got.said
