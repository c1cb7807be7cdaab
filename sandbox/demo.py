"""`hami-bot demo`: a pretended Slack and a pretended cluster on loopback, the real bot as a process between them."""

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import click
import yaml

from bot.errors import BotError, UsageError
from bot.texts import Language
from playbooks.own.discovery import find
from playbooks.playbook import load
from sandbox.apiserver import ApiServer, Timing
from sandbox.slack import SlackServer
from sandbox.slack.seed import PAT, SHARED, Room, Seed, Verb

RECORDING = Path(__file__).parent / "recordings" / "hami-2.10.tar.gz"
BUSY = RECORDING.with_name("hami-2.10.busy-cpu.pb.gz")
"""A CPU profile of the same scheduler four minutes later: with --v=5 and 1,000 requests a second."""
POD = "s03-card-insufficient-memory"
_PATIENCE_S = 60.0
_KUBECONFIG = "kubeconfig"
_NAME = "lab"
"""What the cluster is called, in Slack and in a shell."""

WELCOME: dict[Language, str] = {
    "en": "This workspace and its cluster are simulated on this machine. The bot is the real one, reading a recording "
    f"of a real HAMi scheduler. `{POD}` is a pod that waits there for a GPU.",
    "zh": "这个工作区和它的集群是在本机模拟的。机器人是真实的，读取的是真实 HAMi 调度器的录制。"
    f"`{POD}` 是其中一个等待 GPU 的 Pod。",
}
OPERATORS = ("U0ADA00001",)
"""Ada may change the pretended cluster; the others are refused, as in a real workspace."""
THINGS_TO_TRY: dict[Language, tuple[str, ...]] = {
    "en": (
        f"In #gpu-oncall type  /hami why {POD}  and press Enter: only you see the answer; “Post to channel” shares it.",
        "In a thread write  @hami-bot gpus  (slash commands do not work in threads, there as here).",
        "In the menu of Ada's message in #gpu-oncall choose “Diagnose with HAMi”.",
        "Type  /hami profile cpu 5s  and open its thread: flame graph, table and file of a recorded profile.",
        "Take another one: the scheduler is busier then. /hami profile kept  lists both; compare them by their ids.",
        "As Ada type  /hami verbosity 5 for 10m because it hangs  and see what it would do before it is done.",
        f"As {PAT.name}, who is of another company, ask in #{SHARED.name}: the bot answers only its own workspace.",
    ),
    "zh": (
        f"在 #gpu-oncall 输入  /hami why {POD}  并按回车：只有您能看到回答；按“发布到频道”即可分享。",
        "在讨论串中输入  @hami-bot gpus  （斜杠命令在讨论串中无效，与 Slack 相同）。",
        "在 #gpu-oncall 中 Ada 的消息的菜单里选择 “Diagnose with HAMi”。",
        "输入  /hami profile cpu 5s  并打开它的讨论串：录制的剖析的火焰图、表格和文件。",
        "再取一次：此时调度器更忙。 /hami profile kept  列出两者；用它们的 ID 比较。",
        "以 Ada 的身份输入  /hami verbosity 5 for 10m because it hangs  ，先看它会做什么，再执行。",
        f"以另一家公司的 {PAT.name} 的身份在 #{SHARED.name} 提问：机器人只回答自己的工作区。",
    ),
}
_MORE: dict[Language, tuple[str, str, str, str, str]] = {
    "en": (
        "Post an alert and see its thread in #{room}:",
        "Read what Prometheus would:",
        "Ask the same cluster from a second shell:",
        "Open {url} in a browser. Things to try:",
        "Ctrl-C ends it. What goes wrong is shown below.",
    ),
    "zh": (
        "发送一条告警，在 #{room} 中查看它的讨论串：",
        "查看 Prometheus 会读到的内容：",
        "在另一个终端里询问同一个集群：",
        "在浏览器中打开 {url}。可以尝试：",
        "按 Ctrl-C 结束。出错时会显示在下面。",
    ),
}


INCIDENTS = Room(
    "C0GPUINC01",
    "gpu-incidents",
    tuple(user.id for user in Seed().users),
    "What hami-bot finds, and alerts: a thread each",
)
TOKEN = "demo"  # noqa: S105  # it guards nothing: it is printed
ALERT = (
    '{"version": "4", "alerts": [{"status": "firing", "labels": '
    '{"alertname": "GPUPodPending", "namespace": "ml", "pod": "s05-exclusive-cores100"}}]}'
)


class Demo(NamedTuple):
    """The page's address, the bot's process and its own address, and how a shell reaches the pretended cluster."""

    url: str
    bot: asyncio.subprocess.Process
    address: str
    kubeconfig: Path

    @property
    def alerts(self) -> str:
        return f"{self.address}/alerts/alertmanager"


class BotStopped(BotError):  # noqa: N818  # what the person is told
    """The bot's process ended although nobody told it to."""


async def run(port: int, language: Language = "en") -> None:
    """Runs the demo until SIGINT or SIGTERM. Raises BotStopped if the bot ends before, UsageError for a taken port."""
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with contextlib.AsyncExitStack() as stack:
        try:
            running = await stack.enter_async_context(demo(port, language))
        except OSError as error:
            raise UsageError(
                f"the sandbox cannot listen on 127.0.0.1:{port}: {os.strerror(error.errno)}",
                hint="Another demo may run there. Let it choose a port itself: hami-bot demo --port 0",
            ) from error
        click.echo(invitation(running, language))
        ended = asyncio.create_task(running.bot.wait())
        stopping = asyncio.create_task(stopped.wait())
        await asyncio.wait((ended, stopping), return_when=asyncio.FIRST_COMPLETED)
        if not stopping.done():
            stopping.cancel()
            raise BotStopped(f"the bot ended with exit code {ended.result()}", hint="What it said stands above.")
        click.echo("\nstopping")
        ended.cancel()


@asynccontextmanager
async def demo(port: int = 0, language: Language = "en") -> AsyncGenerator[Demo]:
    """The sandbox with the bot connected to it."""
    now = datetime.now(UTC)  # noqa: TID251  # it plays a cluster
    cluster = ApiServer.from_recording(RECORDING, shift_to=now, timing=Timing(renew_s=5))
    cluster.ports.alternate("profile", BUSY.read_bytes())
    async with cluster, SlackServer(port=port, seed=_seed(language)) as slack:
        with tempfile.TemporaryDirectory(prefix="hami-bot-demo-") as folder:
            bind = f"127.0.0.1:{_free_port()}"
            async with _bot(_settings(Path(folder), cluster, slack, bind, language), slack) as bot:
                yield Demo(slack.url, bot, f"http://{bind}", Path(folder) / _KUBECONFIG)


@asynccontextmanager
async def _bot(settings: Path, slack: SlackServer) -> AsyncGenerator[asyncio.subprocess.Process]:
    bot = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bot", "serve", "--config", str(settings)),
        env=_environment(),
        start_new_session=True,  # Ctrl-C is for us: the bot is told when it is time
        stderr=asyncio.subprocess.PIPE,
    )
    showing = asyncio.create_task(_show_trouble(bot))
    try:
        await _connected(bot, slack)
        yield bot
    finally:
        with contextlib.suppress(ProcessLookupError):
            bot.terminate()
        await bot.wait()
        await showing


async def _show_trouble(bot: asyncio.subprocess.Process) -> None:
    """Shows what the bot logs, but for what only tells that all is well."""
    assert bot.stderr
    async for line in bot.stderr:
        if line.split(maxsplit=2)[1:2] != [b"INFO"]:
            click.echo(line, err=True, nl=False)


def _settings(folder: Path, cluster: ApiServer, slack: SlackServer, bind: str, language: Language) -> Path:
    """The bot's settings file: it is told addresses and credentials, nothing else."""
    kubeconfig = folder / _KUBECONFIG
    kubeconfig.write_text(cluster.kubeconfig(name=_NAME))
    settings = {
        "slack": {"bot_token": slack.bot_token, "app_token": slack.app_token, "api_url": slack.api_url},
        "clusters": {_NAME: {"kubeconfig": str(kubeconfig)}},
        "store": {"url": f"sqlite+aiosqlite:///{folder / 'bot.db'}"},
        "http": {"bind": bind},
        "access": {"operators": list(OPERATORS)},
        "oncall": {"channel": INCIDENTS.id, "token": TOKEN, "pending_minutes": 0},
        "metrics": {"token": TOKEN},
        "language": language,
    }
    path = folder / "hami-bot.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path


def _free_port() -> int:
    """One that was free a moment ago: whoever posts an alert has to be told it before the bot listens there."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


def _environment() -> dict[str, str]:
    """Ours without settings of the bot: those of a real workspace must not reach this one."""
    return {name: value for name, value in os.environ.items() if not name.upper().startswith("HAMI_BOT_")}  # noqa: TID251


async def _connected(bot: asyncio.subprocess.Process, slack: SlackServer) -> None:
    ended = asyncio.create_task(bot.wait())
    connecting = asyncio.create_task(slack.wait_for(lambda: slack.connected, seconds=_PATIENCE_S))
    done, _ = await asyncio.wait((ended, connecting), timeout=_PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
    for task in (ended, connecting):
        task.cancel()
    if connecting not in done:
        how = f"ended with exit code {ended.result()}" if ended in done else f"did not connect in {_PATIENCE_S:.0f} s"
        raise BotStopped(f"the bot {how}", hint="What it said stands above.")


def _seed(language: Language) -> Seed:
    usage = {verb: find(verb).example for verb in load()} | {
        "why": f"why {POD}",
        "logs": f"logs {POD}",
        "nodes": "nodes",
        "fit": "fit",
        "gpus": "gpus",
        "profile": "profile cpu 5s",
    }
    verbs = tuple(Verb(verb, usage[verb], find(verb).summary) for verb in sorted(usage, reverse=True))
    users, channels = (*Seed().users, PAT), (*Seed().channels, INCIDENTS, SHARED)
    return replace(Seed(), users=users, channels=channels, verbs=verbs, welcome=WELCOME[language])


def invitation(running: Demo, language: Language = "en") -> str:
    """The text that tells a newcomer what to do now."""
    curl = f"curl -H 'Authorization: Bearer {TOKEN}'"
    post, read, shell, begin, end = _MORE[language]
    tried = (
        *THINGS_TO_TRY[language],
        f"{post.format(room=INCIDENTS.name)}\n     {curl} -d '{ALERT}' {running.alerts}",
        f"{read}\n     {curl} {running.address}/metrics",
        f"{shell}\n     {_program()} pending --kubeconfig {running.kubeconfig}",
    )
    things = "\n".join(f"  {number}. {thing}" for number, thing in enumerate(tried, 1))
    return f"\n{begin.format(url=running.url)}\n{things}\n{end}"


def _program() -> str:
    """What another shell finds: `make demo` puts nothing on the PATH."""
    started = Path(sys.argv[0])
    is_hidden = started.name == "hami-bot" and shutil.which(started.name) is None
    return str(started.absolute()) if is_hidden else "hami-bot"
