"""What a newcomer sees after `make demo`: the real bot, in a real browser, says the same as the shell."""

import asyncio
import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from playwright.async_api import Locator, Page, expect

from playbooks.profile.request import name_of
from sandbox.demo import ALERT, BUSY, POD, RECORDING, TOKEN, Demo, demo, invitation
from tests.sandbox.page.support import BROWSERS, DESK, find_browser, open_browser, type_command, violations_of
from tests.scenes import as_test

pytestmark = pytest.mark.process

PATIENCE_MS = 120_000

HELD = "ml/s05-exclusive-cores100"
"""A pod with a step that is a question."""


def verdict_of_the_shell(pod: str = POD) -> str:
    words = [sys.executable, "-m", "bot", "why", pod, "--recording", str(RECORDING), "-o", "json"]
    return json.loads(subprocess.run(words, check=True, capture_output=True).stdout)["verdict"]


def in_the_demo(scene) -> None:
    path = find_browser()
    if path is None:
        pytest.skip(f"none of {', '.join(BROWSERS)} is on the PATH")

    async def play() -> None:
        async with asyncio.timeout(300), demo() as running, open_browser(path) as browser:
            page = await browser.new_page(**DESK)
            page.set_default_timeout(PATIENCE_MS)
            complaints: list[str] = []
            page.on("console", lambda said: said.type in {"error", "warning"} and complaints.append(said.text))
            page.on("pageerror", lambda error: complaints.append(str(error)))
            await page.goto(running.url)
            try:
                await scene(page, running)
            except Exception as error:
                error.add_note(f"the page shows:\n{await page.locator('body').inner_text()}")
                error.add_note(f"it complained of {complaints}")
                raise
            assert complaints == []

    asyncio.run(play())


async def width_of(picture: Locator) -> int:
    """Its own, once it has loaded."""
    return await picture.evaluate("async image => { await image.decode(); return image.naturalWidth }")


async def ask(page: Page, words: str) -> None:
    await page.get_by_role("link", name="gpu-oncall").click()
    await type_command(page, words)


def test_the_browser_gives_the_shells_verdict_and_the_next_step_is_one_click() -> None:
    verdict = verdict_of_the_shell(HELD)

    async def scene(page: Page, running: Demo) -> None:
        assert running.kubeconfig.is_file()
        await ask(page, f"/hami why {HELD}")
        answer = page.locator(".message.ephemeral", has_text=verdict)
        await expect(answer).to_contain_text("Only visible to you", timeout=PATIENCE_MS)

        await answer.get_by_role("button", name="Post to channel").click()
        posted = page.locator("#main .message:not(.ephemeral)", has_text=verdict)
        await posted.wait_for()
        await posted.get_by_role("button", name="gpus --node").first.click()
        await posted.get_by_role("button", name="Reply in thread").click()
        thread = page.locator("#thread")
        await expect(thread).to_contain_text("can still take a pod", timeout=PATIENCE_MS)
        assert await violations_of(page) == []

    in_the_demo(scene)


@pytest.mark.sampled(0)
@as_test(in_the_demo)
async def test_profiles_are_taken_in_the_browser_with_table_flame_graph_and_files_and_are_compared(
    page: Page, running: Demo
) -> None:
    await ask(page, "/hami profile cpu 1s")
    answer = page.locator("#main .message", has_text="560ms in 10 s")
    await answer.wait_for()
    await expect(answer.locator("table")).to_contain_text("linux.Syscall6")
    await answer.get_by_role("button", name="Reply in thread").click()
    thread = page.locator("#thread")
    assert await width_of(thread.locator("img[alt^='Flame graph of']")) == 1600
    for name in ("cpu-3d1451de.top.txt", "cpu-3d1451de.html", "cpu-3d1451de.pb.gz"):
        await thread.get_by_role("link", name=f"Download {name}").wait_for()
    assert await violations_of(page) == []
    await ask(page, "/hami profile cpu 1s")
    await page.locator("#main .message", has_text="6.09s in 10 s").wait_for()
    await ask(page, f"/hami profile compare cpu-3d1451de {name_of('cpu', BUSY.read_bytes())}")
    await page.locator("#main .message", has_text="5.6% → 60.9% (+988%)").wait_for()


@as_test(in_the_demo)
async def test_an_alert_posted_as_the_demo_says_opens_a_thread(page: Page, running: Demo) -> None:
    credentials = {"Authorization": f"Bearer {TOKEN}"}
    async with (
        aiohttp.ClientSession(headers=credentials) as session,
        session.post(running.alerts, data=ALERT) as got,
    ):
        assert got.status == 200
    await page.get_by_role("link", name="gpu-incidents").click()  # while the alert has the list drawn anew
    head = page.locator("#main .message", has_text="ml/s05-exclusive-cores100")
    await expect(head).to_contain_text("exclusive-device-conflict", timeout=PATIENCE_MS)


def test_a_port_that_is_taken_is_told_with_a_way_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "bot", "demo", "--port", port]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert f"127.0.0.1:{port}" in done.stderr
    assert "--port 0" in done.stderr


@pytest.mark.parametrize(("on_the_path", "program"), [(False, "{folder}/hami-bot"), (True, "hami-bot")])
def test_the_command_for_a_second_shell_is_found_there(
    on_the_path: bool, program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = tmp_path / "hami-bot"
    command.touch(0o755)
    monkeypatch.setattr(sys, "argv", [str(command), "demo"])
    monkeypatch.setenv("PATH", str(tmp_path if on_the_path else tmp_path / "elsewhere"))
    bot: Any = None
    told = invitation(Demo("http://127.0.0.1:1", bot, "http://127.0.0.1:2", Path("kubeconfig")))
    assert f"     {program.format(folder=tmp_path)} pending --kubeconfig kubeconfig" in told
