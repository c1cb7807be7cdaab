"""A storm of alerts against the real store, outbox and renderer, with Slack and the cluster pretended, time virtual."""

import asyncio
import tempfile
import time
from pathlib import Path

from benchmarks.rows import Row
from tests.oncall.rig import a_rig
from tests.oncall.scenes import busy_cluster
from tests.oncall.storm import ALERTS, PODS, SECONDS, Weather, storm

CAUSES = 3
BUDGET = "3 threads, nothing lost, evidence once each, <= 1 call/s/channel, no 429"


def rows() -> list[Row]:
    """What the storm left, and the CPU time that it took the bot, the pretended Slack included."""
    with tempfile.TemporaryDirectory() as folder:
        recording = busy_cluster(Path(folder) / "cluster", PODS)
        before = time.process_time()
        seen = asyncio.run(_storm(f"sqlite:///{folder}/storm.db", recording))
        used = time.process_time() - before
    met = len(seen.heads) == CAUSES and seen.kept == ALERTS and set(seen.evidence) == {1}
    met = met and seen.refused == 0 and seen.closest_s >= 1.0
    ours = (
        f"{len(seen.heads)} threads, {seen.kept:,} alerts kept, {seen.posts} posts, {seen.edits} edits, "
        f"{seen.refused} refused, at least {seen.closest_s:.2f} s apart; {used:.1f} s of CPU"
    )
    what = f"alert storm, {ALERTS:,} alerts in {SECONDS} s, {PODS} pods, {CAUSES} causes, a third of the bodies twice"
    peer = "slack-sdk as it comes: of 60 posts at once to a channel 57 are lost"
    return [Row(what, ours, BUDGET, met, peer)]


async def _storm(database: str, recording: Path) -> Weather:
    async with a_rig(database, recording) as rig:
        return await storm(rig)
