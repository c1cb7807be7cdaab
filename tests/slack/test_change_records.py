"""A record on the Deployment that is damaged or gone leaves nothing raised, and nobody unaware."""

import asyncio
from pathlib import Path

from bot.changes.plan import KEY_PATH
from sandbox.apiserver import Rule
from tests.slack.changing import ADA, LINUS, NAME, NAMESPACE, World, a_bot, a_place, actions, played, readyz, text_of
from tests.slack.outages import free_port


async def spoilt(world: World, how: str) -> None:
    """Somebody removes the record, or leaves what is none."""
    text = (await world.deployment())["metadata"]["annotations"].get("hami-bot.io/temporary-change", "{")
    value = {"cut": text[:90], "of another version": text.replace('"v":1', '"v":2')}
    operation = {"op": "remove"} if how == "removed" else {"op": "add", "value": value[how]}
    await world.writer.patch_deployment(NAMESPACE, NAME, (operation | {"path": KEY_PATH},))


@played()
async def test_it_is_told_at_once_and_goes_back_at_its_deadline_by_the_stores_copy(world: World) -> None:
    before = await world.words()
    for times, how in enumerate(("removed", "cut", "of another version"), 1):
        card = await world.raised()
        await spoilt(world, how)
        warned = await world.card("is damaged or gone; the bot reverts it by the store's copy")
        assert (warned["ts"], list(actions(warned))) == (card["ts"], ["change:revert"])
        assert "-v=5" in await world.words()
        world.ahead_s = 1801 * times
        ended = (await world.slack.wait_for(lambda times=times: world.cards("Reverted")[times - 1 :], seconds=180))[-1]
        assert ended["ts"] == card["ts"]
        assert "By the store's copy of its record." in text_of(ended)
        assert await world.words() == before
        assert not await world.is_open()
        kept = [row["detail"] for row in await world.audit_rows() if row["outcome"] in ("unreadable", "reverted")]
        assert ["the store's copy" in detail for detail in kept] == [True, True] * times


@played(language="zh")
async def test_a_chinese_bot_tells_it_in_chinese(world: World) -> None:
    await world.asked("verbosity 5 for 30m", "it hangs")
    await world.card("已生效")
    await spoilt(world, "removed")
    await world.card("机器人将按存储中的副本撤销")
    world.ahead_s = 1801
    assert "依据存储中的记录副本。" in text_of(await world.card("已撤销"))


@played()
async def test_in_words_it_is_shown_not_extended_and_reverted_and_its_card_reverts_it_too(world: World) -> None:
    before = await world.words()
    for times, how in enumerate(("removed", "cut"), 1):
        card = await world.raised()
        await spoilt(world, how)
        await world.card("is damaged or gone")
        await world.command("ada", "verbosity", "by the store's copy it is reverted at", times)
        await world.command("ada", "verbosity extend 10m", "so the change cannot be extended", times)
        if how == "removed":
            await world.slack.command("ada", "gpu-oncall", "verbosity revert")
        else:
            await world.click("ada", card, "change:revert")
        ended = await world.slack.wait_for(lambda times=times: world.cards("Reverted")[times - 1 :], seconds=180)
        assert ADA in text_of(ended[-1])
        assert await world.words() == before


async def test_where_it_cannot_be_written_the_approvers_are_called_and_readyz_says_so(tmp_path: Path) -> None:
    bind = free_port()
    async with asyncio.timeout(180), a_place(tmp_path) as world, a_bot(world, bind=bind):
        await world.raised()
        await spoilt(world, "removed")
        await world.card("is damaged or gone")
        world.cluster.access.refused = [Rule(["patch"], ["deployments"])]
        world.ahead_s = 1800 + 125
        assert LINUS not in text_of(await world.card("2 minutes ago"))
        world.ahead_s = 1800 + 605
        assert LINUS in text_of(await world.card("10 minutes ago"))
        world.ahead_s = 1800 + 3605
        assert LINUS in text_of(await world.card("1 hour ago"))
        assert "cannot be reverted" in await readyz(bind)
        world.cluster.access.refused = []
        await world.card("Reverted")


async def test_what_the_store_does_not_know_either_is_told_again_and_again(tmp_path: Path) -> None:
    bind = free_port()
    async with asyncio.timeout(180), a_place(tmp_path) as world:
        async with a_bot(world):
            await world.raised()
        # While no bot runs: one would write its copy again from a record that is still whole.
        await world.sql("delete from changes")
        await spoilt(world, "cut")

        async def told(times: int) -> str:
            def found() -> list[str]:
                said = [text_of(message) for message in world.slack.messages(f"D{ADA[1:]}", "ada")]
                return [text for text in said if "the store has no copy of it" in text]

            return (await world.slack.wait_for(lambda: found()[times - 1 :], seconds=180))[-1]

        async with a_bot(world, bind=bind):
            assert f"kubectl -n {NAMESPACE} edit deployment {NAME}" in await told(1)
            for times, seconds in enumerate((125, 605, 3605), 2):
                world.ahead_s = seconds
                await told(times)
            assert "cannot be reverted: it is no record of a change" in await readyz(bind)
            outcomes = [outcome for _, _, outcome in await world.audit()]
            assert outcomes.count("unreadable") == 1
            assert "-v=5" in await world.words()
