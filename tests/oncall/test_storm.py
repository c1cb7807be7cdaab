"""A storm of alerts is three threads."""

import re
from pathlib import Path

import pytest

from tests.oncall.rig import Rig, with_rig
from tests.oncall.scenes import CAUSES, busy_cluster
from tests.oncall.storm import ALERTS, PODS, storm


@pytest.mark.sampled(0)  # the same storm, during an outage: test_outage.py
def test_a_thousand_alerts_in_a_minute_for_three_causes_are_three_threads(tmp_path: Path) -> None:
    async def scene(rig: Rig) -> None:
        seen = await storm(rig)
        assert sorted(code for code in CAUSES for head in seen.heads if code in head) == sorted(CAUSES)
        counts = [re.search(r"(\d+) of (\d+) pods still affected, (\d+) alerts", head) for head in seen.heads]
        assert sum(int(found[2]) for found in counts if found) == PODS
        assert sum(int(found[3]) for found in counts if found) == ALERTS
        assert seen.kept == ALERTS
        assert seen.evidence == [1, 1, 1]
        assert seen.posts == 6
        assert seen.edits <= 12
        assert seen.refused == 0
        assert seen.closest_s >= 1.0

    with_rig(f"sqlite:///{tmp_path}/storm.db", busy_cluster(tmp_path / "cluster", PODS), scene)
