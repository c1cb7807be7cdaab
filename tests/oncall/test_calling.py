"""In Slack: who was called and who is next stands in the head, and a last resort is told where it reads."""

from pathlib import Path

import pytest

from tests.conftest import NewDatabase
from tests.oncall.rig import TERMS, Rig, pending, text, with_rig
from tests.oncall.scenes import busy_cluster

ADA, GROUP = TERMS.rota


def test_the_head_says_who_was_called_and_who_is_next_and_when(new_database: NewDatabase, tmp_path: Path) -> None:
    async def scene(rig: Rig) -> None:
        keeper = rig.keeper()
        await keeper.take([pending(0)])
        await rig.passes(0, keeper)
        [head] = rig.heads()
        assert ADA not in str(head)  # whom a first post names, it calls
        await rig.passes(100, keeper, step_s=50)
        [head] = rig.heads()
        assert "next called:" in text(head)
        assert f"'user_id': '{ADA}'" in str(head["blocks"])
        await rig.passes(900, keeper, step_s=50)
        [head] = rig.heads()
        assert "Called:" in text(head)
        [row] = await rig.store.incidents.opened()
        assert row.incident.called == (ADA,)
        blocks = str(head["blocks"])
        assert (
            blocks.index(ADA) < blocks.index(GROUP) < blocks.index(f"'timestamp': {row.incident.called_at + 900:.0f}")
        )

    with_rig(new_database(), busy_cluster(tmp_path, 3), scene)


@pytest.mark.parametrize("last", ["C0GENERAL1", "U0LINUS001"])
def test_a_last_resort_is_told_once_in_its_channel_or_to_its_person(
    new_database: NewDatabase, tmp_path: Path, last: str
) -> None:
    async def scene(rig: Rig) -> None:
        terms = TERMS._replace(rota=(ADA,), last_resort=last)
        one, two = rig.keeper("one", terms=terms), rig.keeper("two", terms=terms)
        await one.take([pending(0)])
        await rig.passes(2000, one, two, step_s=100)
        [head] = rig.heads()
        assert [reply for reply in rig.replies(head) if "is the last resort" in reply]
        workspace = rig.bot.slack.workspace
        place = last if last.startswith("C") else workspace.open_dm(last).id
        told = [text(one) for _, one in workspace.everything(place) if "Everybody was called" in text(one)]
        assert len(told) == 1

    with_rig(new_database(), busy_cluster(tmp_path, 3), scene)
