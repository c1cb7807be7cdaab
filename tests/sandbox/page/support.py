"""A real browser on the page of a real sandbox, with a small app that answers what a test tells it to."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qs

import aiohttp
import axe_core_python
from aiohttp import web
from playwright.async_api import Browser, Page, async_playwright, expect

from sandbox.serving import Served
from sandbox.slack import SlackServer
from sandbox.slack.clock import Clock
from sandbox.slack.seed import Seed, Verb

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
AXE = (Path(axe_core_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
VERBS = (
    Verb("why", "why ml/trainer-0", "why a pod is pending"),
    Verb("pending", "pending", "all pods that wait for a GPU"),
    Verb("nodes", "nodes", "what is free on each node"),
)
CHANNEL = "C0GPUONC01"
DESK = {"viewport": {"width": 1280, "height": 800}}
PATIENCE_MS = 60_000
Scenario = Callable[[SlackServer, "App", Page], Awaitable[None]]


def find_browser() -> str | None:
    return next((path for path in map(shutil.which, BROWSERS) if path), None)


class App:
    """What the bot is to the server: takes deliveries over HTTP.

    `answers` maps a kind of payload ("/hami", "block_actions", "view_submission", ...) to what is answered: a body, or
    an async function of the payload that makes one.
    """

    def __init__(self, slack: SlackServer, session: aiohttp.ClientSession) -> None:
        self._slack = slack
        self._session = session
        self.answers: dict[str, Any] = {}
        self.heard: list[dict[str, Any]] = []

    def payloads(self, kind: str) -> list[dict[str, Any]]:
        return [payload for payload in self.heard if kind in (payload.get("type"), payload.get("command"))]

    async def call(self, method: str, **arguments: Any) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self._slack.bot_token}"}
        async with self._session.post(self._slack.api_url + method, json=arguments, headers=headers) as response:
            answer: dict[str, Any] = await response.json()
        assert answer["ok"], answer
        return answer

    async def upload(self, name: str, content: bytes, *, alt_text: str = "") -> None:
        """A file into the channel of the tests, in the three steps of version 2."""
        about = {"filename": name, "length": len(content), "alt_txt": alt_text}
        asked = await self.call("files.getUploadURLExternal", **about)
        async with self._session.post(asked["upload_url"], data=content) as response:
            assert response.status == 200
        done = {"files": [{"id": asked["file_id"], "title": name}], "channel_id": CHANNEL}
        await self.call("files.completeUploadExternal", **done)

    def opens(self, view: dict[str, Any]) -> Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]:
        async def answer(payload: dict[str, Any]) -> dict[str, Any]:
            await self.call("views.open", trigger_id=payload["trigger_id"], view=view)
            return {}

        return answer

    async def handle(self, request: web.Request) -> web.Response:
        text = await request.text()
        if request.content_type == "application/json":
            payload = json.loads(text)
        else:
            form = {key: values[0] for key, values in parse_qs(text).items()}
            payload = json.loads(form["payload"]) if "payload" in form else form
        self.heard.append(payload)
        answer = self.answers.get(payload.get("command") or payload["type"], {})
        body = await answer(payload) if callable(answer) else answer
        return web.json_response(body) if body else web.Response()


@asynccontextmanager
async def workspace(
    *, connected: bool = True, clock: Clock | None = None, **seed: Any
) -> AsyncIterator[tuple[SlackServer, App]]:
    """A lenient server, so that what Slack would refuse reaches the page too."""
    async with (
        SlackServer(strict=False, clock=clock, seed=Seed(**({"verbs": VERBS} | seed))) as slack,
        aiohttp.ClientSession() as session,
    ):
        app = App(slack, session)
        site = web.Application()
        site.router.add_post("/", app.handle)
        async with Served(site) as served:
            if connected:
                slack.request_url = f"{served.url}/"
                slack.delivery = "http"
            yield slack, app


class Chrome:
    """One browser for all tests of a session; each scenario gets a fresh workspace and a fresh page."""

    def __init__(self, runner: asyncio.Runner, browser: Browser) -> None:
        self._runner = runner
        self._browser = browser

    def run(
        self,
        scenario: Scenario,
        *,
        path: str = "",
        before: Callable[[SlackServer], object] = lambda _: None,
        expected_complaints: tuple[str, ...] = (),
        workspace: Mapping[str, Any] = MappingProxyType({}),
        **context: Any,
    ) -> None:
        """Opens the page at `path` of a workspace that `before` has filled, and runs the scenario.

        `workspace` are arguments of `workspace()`, `context` those of a browser's context (size, colours). Fails when
        the page complained on its console, raised, opened a dialog, or broke its own security policy.
        """
        complaints = self._runner.run(self._try_out(scenario, path, before, dict(workspace), context))
        assert [
            complaint for complaint in complaints if not any(words in complaint for words in expected_complaints)
        ] == []

    async def _try_out(
        self,
        scenario: Scenario,
        path: str,
        before: Callable[[SlackServer], object],
        options: dict[str, Any],
        context: dict[str, Any],
    ) -> list[str]:
        complaints: list[str] = []

        async def dismiss(dialog: Any) -> None:
            complaints.append(f"dialog: {dialog.message}")
            await dialog.dismiss()

        async with workspace(**options) as (slack, app):
            before(slack)
            shown = await self._browser.new_context(**(DESK | context))
            try:
                shown.set_default_timeout(PATIENCE_MS)
                page = await shown.new_page()
                page.on("console", lambda said: complaints.append(f"console {said.type}: {said.text}"))
                page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
                page.on("dialog", dismiss)
                await page.goto(f"{slack.url}/{path}")
                await page.wait_for_selector("body[data-ready]")
                await scenario(slack, app, page)
            finally:
                await shown.close()
        return complaints


@asynccontextmanager
async def open_browser(path: str) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, headless=True, args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            await browser.close()


async def type_command(page: Page, words: str) -> None:
    """Into the channel that is open, as a person does: again where the app did not take it in time.

    An app on a busy machine may lose its connections for a moment, and what it is sent meanwhile.
    """
    composer = page.locator("#main textarea")
    while True:
        await page.get_by_text("hami-bot is connected").wait_for()
        await composer.fill(words)
        await composer.press("Enter")
        await expect(composer).to_be_editable(timeout=PATIENCE_MS)
        if not await composer.input_value():  # what was not taken stays there
            return


async def violations_of(page: Page) -> list[str]:
    """What axe-core finds wrong with the page as it stands."""
    await page.evaluate(AXE)
    found = await page.evaluate("axe.run(document)")
    return [
        f"{violation['id']}: {node['target']} {node['failureSummary']}"
        for violation in found["violations"]
        for node in violation["nodes"]
    ]
