"""The bot before a live cluster: its second answer comes from memory, and says how old that is."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

from bot.main import open_watched
from handlers.cluster_choice import ClusterChoice
from sandbox.apiserver import ApiServer
from sandbox.slack.content import strings_of
from tests.slack.bot import POD, RECORDING, a_bot

MEMORY = "from the watch cache, at most"


def test_an_answer_says_how_old_what_it_remembered_may_be(tmp_path: Path) -> None:
    async def play() -> None:
        now = datetime.now(UTC)  # noqa: TID251  # the sandbox plays a cluster
        async with asyncio.timeout(180), ApiServer.from_recording(RECORDING, shift_to=now) as cluster:
            file = tmp_path / "kubeconfig"
            file.write_text(cluster.kubeconfig())

            def opener(name: str):
                return open_watched(ClusterChoice(kubeconfig=file, cluster=name))

            async with a_bot(tmp_path, opener=opener) as here:
                told: list[str] = []
                for who in ("ada", "linus"):
                    await here.slack.command(who, "gpu-oncall", f"why {POD}")
                    answer = await here.slack.wait_for(channel="gpu-oncall", containing="20,000 MiB", user=who)
                    told.append("\n".join(strings_of(answer)))
            assert [MEMORY in text for text in told] == [False, True]

    asyncio.run(play())
