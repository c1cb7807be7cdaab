"""Writing, commands and their errors, completion, threads, the status line, the places."""

import pytest

from tests.sandbox.page.support import CHANNEL, Chrome

pytestmark = pytest.mark.process

AT_CHANNEL = f"#/c/{CHANNEL}"


def test_the_first_screen_says_what_this_is_and_fills_in_what_to_try(chrome: Chrome) -> None:
    async def scenario(slack, app, page):
        start = page.get_by_role("region", name="Start here")
        await start.get_by_role("heading", name="Try hami-bot without Slack").wait_for()
        await start.get_by_text("Nothing leaves this machine").wait_for()
        await start.get_by_role("button", name="/hami why ml/trainer-0").click()
        field = page.locator("#main textarea")
        assert await field.input_value() == "/hami why ml/trainer-0"
        assert await field.evaluate("field => field === document.activeElement")

    chrome.run(scenario)


def test_enter_sends_and_shift_enter_starts_a_line(chrome: Chrome) -> None:
    async def scenario(slack, app, page):
        field = page.get_by_label("Message #gpu-oncall")
        await field.press_sequentially("one")
        await field.press("Shift+Enter")
        await field.press_sequentially("two <b> & *three*")
        await field.press("Enter")
        said = page.locator(".message .content").last
        await page.locator(".message", has_text="two").wait_for()
        assert await said.inner_text() == "one\ntwo <b> & three"
        assert await field.input_value() == ""

    chrome.run(scenario, path=AT_CHANNEL)


def test_a_command_is_completed_with_keys_and_sent(chrome: Chrome) -> None:
    async def scenario(slack, app, page):
        app.answers["/hami"] = {"response_type": "ephemeral", "text": "it waits for memory"}
        field = page.get_by_label("Message #gpu-oncall")
        await field.press_sequentially("/h")
        await field.press("Enter")
        assert await field.input_value() == "/hami "
        options = page.get_by_role("listbox", name="Suggestions").get_by_role("option")
        assert await options.count() == 3
        await field.press("ArrowDown")
        await field.press("ArrowDown")
        active = await field.get_attribute("aria-activedescendant")
        assert "pending" in await page.locator(f"#{active}").inner_text()
        await field.press("Tab")
        assert await field.input_value() == "/hami pending "
        await field.press("Enter")
        await page.locator(".message.ephemeral", has_text="it waits for memory").wait_for()
        assert app.payloads("/hami")[-1]["text"] == "pending"
        assert await field.input_value() == ""

    chrome.run(scenario, path=AT_CHANNEL)


def test_a_command_that_no_app_takes_is_told_where_it_was_typed(chrome: Chrome) -> None:
    async def scenario(slack, app, page):
        field = page.get_by_label("Message #gpu-oncall")
        await field.fill("/hami why ml/trainer-0")
        await field.press("Enter")
        problem = page.locator("#main .composer").get_by_role("alert")
        await problem.get_by_text("dispatch_failed").wait_for()
        assert await field.input_value() == "/hami why ml/trainer-0"
        await problem.get_by_role("button", name="Dismiss").click()
        assert await problem.inner_text() == ""
        assert await field.evaluate("field => field === document.activeElement")

    chrome.run(scenario, path=AT_CHANNEL, workspace={"connected": False})


def test_a_thread_opens_takes_a_reply_and_gives_focus_back(chrome: Chrome) -> None:
    async def scenario(slack, app, page):
        await page.get_by_role("button", name="1 reply").click()
        thread = page.get_by_role("complementary")
        await thread.locator(".message", has_text="kubectl describe").wait_for()
        field = thread.get_by_label("Reply in this thread")
        assert await field.evaluate("field => field === document.activeElement")
        await field.fill("found it")
        await field.press("Enter")
        await thread.locator(".message", has_text="found it").wait_for()
        replies = page.get_by_role("button", name="2 replies")
        await replies.wait_for()
        assert await page.locator("#main .message", has_text="found it").count() == 0
        await field.press("Escape")
        await thread.wait_for(state="hidden")
        assert await replies.evaluate("button => button === document.activeElement")

    chrome.run(scenario, path=AT_CHANNEL)


def test_what_one_wrote_can_be_edited_and_nobody_elses_message(chrome: Chrome) -> None:
    async def scenario(slack, app, page):
        await slack.say("grace", "gpu-oncall", "of grace")
        await slack.say("ada", "gpu-oncall", "@hami-bot why a & b in #general")
        own = page.locator(".message", has_text="why a & b")
        await own.hover()
        await own.get_by_role("button", name="More actions").click()
        await page.get_by_role("menuitem", name="Edit message").click()
        dialog = page.get_by_role("dialog", name="Edit message")
        field = dialog.get_by_label("Edit message")
        assert await field.input_value() == "@hami-bot why a & b in #general"
        await field.fill(" ")
        await dialog.get_by_role("button", name="Save").click()
        await dialog.get_by_text("no_text").wait_for()
        await field.fill("@hami-bot why <c>")
        await dialog.get_by_role("button", name="Save").click()
        edited = page.locator(".message", has_text="why <c>")
        await edited.get_by_text("(edited)").wait_for()
        await dialog.wait_for(state="detached")
        await slack.wait_for(
            lambda: (
                len([payload for payload in app.heard if payload.get("event", {}).get("type") == "app_mention"]) == 2
            )
        )
        other = page.locator(".message", has_text="of grace")
        await other.hover()
        await other.get_by_role("button", name="More actions").click()
        await page.get_by_role("menuitem", name="Show raw JSON").wait_for()
        assert await page.get_by_role("menuitem", name="Edit message").count() == 0

    chrome.run(scenario, path=AT_CHANNEL)


def test_an_answer_for_one_person_in_a_closed_thread_is_announced_at_its_head(chrome: Chrome) -> None:
    async def scenario(slack, app, page):
        message = page.locator(".message", has_text="I am on call")
        head = await message.get_attribute("data-ts")
        words = {"channel": CHANNEL, "user": "U0ADA00001", "thread_ts": head, "text": "only for ada"}
        await app.call("chat.postEphemeral", **words)
        thread = message.get_by_role("button", name="Open the thread new")
        await thread.click()
        await page.locator("#thread .message.ephemeral", has_text="only for ada").wait_for()
        assert await message.get_by_text("new", exact=True).count() == 0

    chrome.run(scenario, path=AT_CHANNEL)


def test_a_message_shortcut_is_in_the_menu_of_a_message(chrome: Chrome) -> None:
    async def scenario(slack, app, page):
        message = page.locator(".message").first
        await message.hover()
        more = message.get_by_role("button", name="More actions")
        await more.click()
        await page.keyboard.press("ArrowDown")
        await page.keyboard.press("ArrowUp")
        await page.keyboard.press("Enter")
        await slack.wait_for(lambda: app.payloads("message_action"))
        assert app.payloads("message_action")[0]["callback_id"] == "diagnose"
        assert await more.evaluate("button => button === document.activeElement")

    chrome.run(scenario, path=AT_CHANNEL)


def test_a_lost_server_is_told_and_found_again_is_silent(chrome: Chrome) -> None:
    async def scenario(slack, app, page):
        await page.route("**/ui/events**", lambda route: route.abort())
        await page.get_by_label("Act as").select_option("U0GRACE001")
        problem = page.get_by_role("alert").filter(has_text="The connection to the sandbox is lost")
        await problem.wait_for()
        await page.unroute("**/ui/events**")
        await problem.wait_for(state="hidden")

    chrome.run(scenario, path=AT_CHANNEL, expected_complaints=("ERR_FAILED",))
