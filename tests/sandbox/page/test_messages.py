"""What the page shows of messages, and that text cannot make it do anything."""

import pytest

from tests.sandbox.page.browsing import put
from tests.sandbox.page.samples import EVERY_BLOCK, HOSTILE, LONG, NODES, mrkdwn, option, plain
from tests.sandbox.page.support import CHANNEL, Chrome

pytestmark = pytest.mark.process

AT_CHANNEL = f"#/c/{CHANNEL}"
ADA = "U0ADA00001"
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de"
    "0000000c4944415408d763f8cfc000000301010018dd8db00000000049454e44ae426082"
)


def test_every_kind_of_block_is_drawn(chrome: Chrome) -> None:
    async def scenario(slack, app, page):
        drawn = await page.eval_on_selector_all("[data-block]", "all => all.map((one) => one.dataset.block)")
        assert drawn == [block["type"] for block in EVERY_BLOCK]
        unknown = await page.locator(".unknown-block").all_inner_texts()
        assert len(unknown) == 1
        assert "hologram" in unknown[0]
        assert '"depth": 3' in unknown[0]

    chrome.run(scenario, path=AT_CHANNEL, before=lambda slack: put(slack, blocks=EVERY_BLOCK))


def test_blocks_say_what_they_hold(chrome: Chrome) -> None:
    async def scenario(slack, app, page):
        async def words(kind: str, at: int = 0) -> str:
            return await page.locator(f"[data-block={kind}]").nth(at).inner_text()

        assert "Pod ml/trainer-0 is pending" in await words("header")
        assert "Cause: CardInsufficientMemory on gpu-1" in await words("section")
        assert "8000 MiB" in await words("section", 1)
        assert "kubectl get pods -n ml\nNAME   READY" in await words("rich_text")
        assert "*not parsed* <!channel> &lt;" in await words("rich_text")
        assert await page.locator("[data-block=table] th").all_inner_texts() == ["Node", "Free MiB"]
        assert await page.locator("[data-block=table] td").nth(1).get_attribute("class") == "align-right"
        assert await page.locator("[data-block=data_visualization] svg[role=img]").count() == 4
        assert "Waiting" not in await words("plan")
        assert "Failed" in await words("plan")
        assert await page.locator("[data-block=image] img").get_attribute("alt") == "a square"
        assert "far away" in await words("image", 1)
        link = page.locator("[data-block=section] a")
        assert await link.get_attribute("rel") == "noopener noreferrer"
        assert await link.get_attribute("target") == "_blank"

    chrome.run(scenario, path=AT_CHANNEL, before=lambda slack: put(slack, blocks=EVERY_BLOCK))


def test_an_alert_of_a_monitoring_tool_is_drawn_with_its_title_fields_footer_and_colour(chrome: Chrome) -> None:
    alert = {
        "pretext": "For *on call*",
        "title": "[FIRING] GpuLost",
        "title_link": "http://grafana.example:3000/alert",
        "text": "gpu-1 is *gone*",
        "color": "D63232",
        "footer": "Grafana v11",
        "ts": 1_700_000_000,
        "fields": [{"title": "node", "value": "`gpu-1`", "short": True}],
    }
    hostile = {"title": "<b>x", "title_link": "javascript:alert(1)", "color": "red;x"}

    async def scenario(slack, app, page):
        shown = page.locator(".message", has_text="GpuLost")
        words = await shown.inner_text()
        for text in ("For on call", "gpu-1 is gone", "node", "Grafana v11 | Nov"):
            assert text in words
        title = shown.get_by_role("link", name="[FIRING] GpuLost")
        assert await title.get_attribute("href") == alert["title_link"]
        assert await shown.locator(".attachment-bar rect").get_attribute("fill") == "#D63232"
        plain = page.locator(".attachment", has_text="<b>x")
        assert await plain.locator("a, .attachment-bar").count() == 0

    chrome.run(scenario, path=AT_CHANNEL, before=lambda slack: put(slack, attachments=[alert, hostile]))


def test_a_data_table_pages_sorts_and_filters(chrome: Chrome) -> None:
    async def scenario(slack, app, page):
        table = page.locator("[data-block=data_table]")
        names = table.locator("tbody th")
        assert await names.all_inner_texts() == ["card-0", "card-1"]
        await table.get_by_role("button", name="Next").click()
        assert await names.all_inner_texts() == ["card-2", "card-3"]
        await table.get_by_role("button", name="Used").click()
        await table.get_by_role("button", name="Used").click()
        assert await names.all_inner_texts() == ["card-2", "card-4"]
        await table.get_by_label("Filter the rows").fill("card-1")
        assert await names.all_inner_texts() == ["card-1"]

    chrome.run(scenario, path=AT_CHANNEL, before=lambda slack: put(slack, blocks=EVERY_BLOCK))


@pytest.mark.parametrize(
    "bad",
    [
        {"type": "section", "text": 3},
        {"type": "actions"},
        {"type": "table", "rows": None},
        None,
        "text",
        {"type": "__proto__"},
    ],
)
def test_a_block_of_a_wrong_shape_does_not_take_the_page_with_it(chrome: Chrome, bad) -> None:
    async def scenario(slack, app, page):
        await page.get_by_text("still here").wait_for()

    def before(slack):
        put(slack, blocks=[bad, {"type": "section", "text": mrkdwn("still here")}])

    chrome.run(scenario, path=AT_CHANNEL, before=before)


def hostile_blocks(words: str):
    button = {"type": "button", "action_id": "b", "text": plain(words[:500]), "url": "javascript:alert(1)"}
    link = {"type": "link", "url": "javascript:alert(1)", "text": words}
    spans = {"type": "rich_text_section", "elements": [{"type": "text", "text": words}, link]}
    picture = {"type": "image", "image_url": "javascript:alert(1)", "alt_text": words[:500]}
    select = {"type": "static_select", "action_id": words[:200], "options": [option(words[:75], "v")]}
    return [
        {"type": "header", "text": plain(words)},
        {"type": "section", "text": mrkdwn(words), "accessory": button},
        {"type": "context", "elements": [mrkdwn(words), picture]},
        {"type": "rich_text", "elements": [spans]},
        {"type": "markdown", "text": words + "\n[x](javascript:alert(1)) <img src=x onerror=alert(1)>"},
        {"type": "table", "rows": [[{"type": "raw_text", "text": words}]]},
        {"type": "alert", "text": mrkdwn(words)},
        {"type": words},
        {"type": "image", "image_url": "https://example.com/spy.png", "alt_text": words[:500]},
        {"type": "actions", "elements": [select]},
    ]


@pytest.mark.parametrize("words", [*HOSTILE, LONG], ids=range(len(HOSTILE) + 1))
def test_hostile_text_stays_text(chrome: Chrome, words: str) -> None:
    """Anything it does - a dialog, a request elsewhere, a broken rule of the page's policy - is a complaint."""

    async def scenario(slack, app, page):
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        ts = put(slack, username=words, text=words, blocks=hostile_blocks(words))
        put(
            slack,
            username=words,
            text=words,
            files=[{"id": "F1", "name": words, "title": words, "mimetype": "application/x-unknown", "size": 1}],
        )
        await page.locator(f'[data-ts="{ts}"]').wait_for()
        links = await page.eval_on_selector_all(".message a[href]", "all => all.map((one) => one.href)")
        assert all(link.startswith(("http:", "https:")) for link in links), links
        assert await page.locator(".message script, .message iframe, .message [onerror], .message [style]").count() == 0
        assert all(url.startswith(slack.url) for url in asked), asked
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert await page.evaluate(
            "document.querySelector('.log').scrollWidth <= document.querySelector('.log').clientWidth"
        )

    chrome.run(scenario, path=AT_CHANNEL)


def test_a_long_text_begins_short_and_can_be_shown_whole(chrome: Chrome) -> None:
    async def scenario(slack, app, page):
        message = page.locator(".message").last
        assert len(await message.inner_text()) < 4000
        await message.get_by_role("button", name="Show more (200,000 characters)").click()
        assert len(await message.inner_text()) > 200_000
        await message.get_by_role("button", name="Show less").click()
        assert len(await message.inner_text()) < 4000

    chrome.run(scenario, path=AT_CHANNEL, before=lambda slack: put(slack, text=LONG))


def test_an_answer_for_one_person_is_marked_and_not_shown_to_others(chrome: Chrome) -> None:
    async def scenario(slack, app, page):
        await app.call("chat.postEphemeral", channel=CHANNEL, user=ADA, text="only for ada")
        message = page.locator(".message", has_text="only for ada")
        await message.get_by_text("Only visible to you").wait_for()
        await page.get_by_label("Act as").select_option("U0GRACE001")
        await page.locator(".message", has_text="I am on call").wait_for()
        assert await message.count() == 0

    chrome.run(scenario, path=AT_CHANNEL)


def test_using_an_element_sends_the_state_of_all_inputs_of_its_message(chrome: Chrome) -> None:
    async def scenario(slack, app, page):
        await page.get_by_label("A note").fill("seen")
        await page.get_by_role("button", name="Go", exact=True).click()
        await slack.wait_for(lambda: app.payloads("block_actions"))
        payload = app.payloads("block_actions")[-1]
        assert payload["actions"][0] | {"action_ts": ""} == {
            "type": "button",
            "action_id": "go",
            "block_id": "acts",
            "value": "v",
            "text": plain("Go"),
            "action_ts": "",
        }
        values = payload["state"]["values"]
        assert values["note"]["note"] == {"type": "plain_text_input", "value": "seen"}
        assert values["acts"]["day"] == {"type": "datepicker", "selected_date": "2026-11-21"}
        await page.get_by_label("Pick", exact=True).select_option("gpu-2")
        await slack.wait_for(lambda: len(app.payloads("block_actions")) == 2)
        assert app.payloads("block_actions")[-1]["actions"][0]["selected_option"] == NODES[1]

    chrome.run(scenario, path=AT_CHANNEL, before=lambda slack: put(slack, blocks=EVERY_BLOCK))


def test_a_dangerous_button_asks_first(chrome: Chrome) -> None:
    async def scenario(slack, app, page):
        await page.get_by_role("button", name="Drain").click()
        dialog = page.get_by_role("dialog", name="Sure?")
        await dialog.get_by_role("button", name="Keep").click()
        await dialog.wait_for(state="detached")
        assert await page.evaluate("document.activeElement.textContent") == "Drain"
        assert app.payloads("block_actions") == []
        await page.get_by_role("button", name="Drain").click()
        await dialog.get_by_role("button", name="Drain").click()
        await slack.wait_for(lambda: app.payloads("block_actions"))

    chrome.run(scenario, path=AT_CHANNEL, before=lambda slack: put(slack, blocks=EVERY_BLOCK))


def test_typed_text_and_focus_survive_an_update_of_the_message(chrome: Chrome) -> None:
    note = EVERY_BLOCK[9]

    async def scenario(slack, app, page):
        posted = await app.call("chat.postMessage", channel=CHANNEL, text="t", blocks=[note])
        field = page.get_by_label("A note")
        await field.fill("half a sent")
        await field.press("ArrowLeft")
        await app.call(
            "chat.update",
            channel=CHANNEL,
            ts=posted["ts"],
            text="t",
            blocks=[{"type": "section", "text": mrkdwn("new above")}, note],
        )
        await page.get_by_text("new above").wait_for()
        assert await field.input_value() == "half a sent"
        await page.keyboard.type("X")
        assert await field.input_value() == "half a senXt"

    chrome.run(scenario, path=AT_CHANNEL)


def test_files_are_shown_as_what_they_are(chrome: Chrome) -> None:
    async def scenario(slack, app, page):
        await app.upload("plot.png", PIXEL, alt_text="memory over time")
        await app.upload("cards #1?.csv", b'card,free\n"a, b",4096\n')
        await app.upload("log.txt", b"<b>line</b>\n")
        await page.get_by_alt_text("memory over time").wait_for()
        assert (
            await page.locator(".file th").all_inner_texts() == ["card", "free"]
            or await page.locator(".file th").first.wait_for() is None
        )
        assert await page.locator(".file td").all_inner_texts() == ["a, b", "4096"]
        await page.locator(".file pre", has_text="<b>line</b>").wait_for()
        async with page.expect_download() as started:
            await page.get_by_role("link", name="Download log.txt").click()
        assert (await started.value).suggested_filename == "log.txt"

    chrome.run(scenario, path=AT_CHANNEL)
