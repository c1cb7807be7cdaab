"""Modals, the Home tab, the inspector."""

import pytest

from tests.sandbox.page.browsing import open_modal
from tests.sandbox.page.samples import EVERY_INPUT, NODES, mrkdwn, plain
from tests.sandbox.page.support import CHANNEL, Chrome

pytestmark = pytest.mark.process

AT_CHANNEL = f"#/c/{CHANNEL}"


def test_a_modal_takes_focus_and_sends_what_was_filled_in(chrome: Chrome) -> None:
    async def scenario(slack, app, page):
        dialog = await open_modal(app, page)
        assert await dialog.get_by_label("Pod").evaluate("field => field === document.activeElement")
        await page.keyboard.type("ml/trainer-0")
        await dialog.get_by_label("Node").select_option("gpu-2")
        await dialog.get_by_label("gpu-2").first.check()
        await dialog.get_by_label("Since").fill("2026-11-20")
        await page.keyboard.press("Enter")
        await dialog.wait_for(state="detached")
        values = app.payloads("view_submission")[0]["view"]["state"]["values"]
        assert values["pod"]["pod"] == {"type": "plain_text_input", "value": "ml/trainer-0"}
        assert values["node"]["node"]["selected_option"] == NODES[1]
        assert values["depth"]["depth"]["selected_option"] == NODES[1]
        assert values["also"]["also"] == {"type": "checkboxes", "selected_options": []}
        assert values["since"]["since"] == {"type": "datepicker", "selected_date": "2026-11-20"}
        assert await page.locator("#main textarea").evaluate("field => field === document.activeElement")

    chrome.run(scenario, path=AT_CHANNEL)


def test_errors_of_the_app_stand_at_their_block_and_keep_what_was_typed(chrome: Chrome) -> None:
    async def scenario(slack, app, page):
        app.answers["view_submission"] = {
            "response_action": "errors",
            "errors": {"pod": "There is no such pod.", "gone": "Also this."},
        }
        dialog = await open_modal(app, page)
        pod = dialog.get_by_label("Pod")
        await pod.fill("ml/nope")
        await dialog.get_by_role("button", name="Ask", exact=True).click()
        await dialog.get_by_text("There is no such pod.").wait_for()
        assert await pod.input_value() == "ml/nope"
        assert await pod.evaluate("field => field === document.activeElement")
        described = (await pod.get_attribute("aria-describedby")).split()
        assert await page.locator(f"#{described[0]}").inner_text() == "There is no such pod."
        await dialog.get_by_role("alert").get_by_text("gone: Also this.").wait_for()

    chrome.run(scenario, path=AT_CHANNEL)


def test_a_modal_updated_by_the_app_keeps_focus_and_what_was_typed(chrome: Chrome) -> None:
    async def scenario(slack, app, page):
        dialog = await open_modal(app, page)
        await dialog.get_by_label("Pod").fill("ml/tr")
        view = EVERY_INPUT | {"blocks": [{"type": "section", "text": mrkdwn("3 pods found")}, *EVERY_INPUT["blocks"]]}
        await app.call("views.update", view_id=slack.views("ada")[-1]["id"], view=view)
        await dialog.get_by_text("3 pods found").wait_for()
        await page.keyboard.type("ainer")
        assert await dialog.get_by_label("Pod").input_value() == "ml/trainer"

    chrome.run(scenario, path=AT_CHANNEL)


def test_modals_are_a_stack(chrome: Chrome) -> None:
    second = {"type": "modal", "title": plain("Second"), "blocks": [{"type": "section", "text": mrkdwn("on top")}]}

    async def scenario(slack, app, page):
        app.answers["view_submission"] = {"response_action": "push", "view": second}
        dialog = await open_modal(app, page)
        await dialog.get_by_label("Pod").fill("ml/x")
        await page.keyboard.press("Enter")
        await page.get_by_role("dialog", name="Second").wait_for()
        await page.keyboard.press("Escape")
        await page.get_by_role("dialog", name="Ask HAMi").wait_for()
        await page.keyboard.press("Escape")
        await dialog.wait_for(state="detached")
        await slack.wait_for(lambda: app.payloads("view_closed"))

    chrome.run(scenario, path=AT_CHANNEL)


def test_tab_stays_inside_a_modal(chrome: Chrome) -> None:
    async def scenario(slack, app, page):
        dialog = await open_modal(app, page)
        inside = "document.querySelector('dialog').contains(document.activeElement)"
        seen = set()
        for _ in range(24):
            await page.keyboard.press("Tab")
            assert await page.evaluate(inside)
            seen.add(await page.evaluate("document.activeElement.outerHTML.slice(0, 300)"))
        assert len(seen) >= 8
        await dialog.get_by_label("Pod").focus()
        await page.keyboard.press("Shift+Tab")
        await page.keyboard.press("Shift+Tab")
        assert await page.evaluate(inside)

    chrome.run(scenario, path=AT_CHANNEL)


def test_an_external_select_asks_the_app_while_one_types(chrome: Chrome) -> None:
    async def scenario(slack, app, page):
        app.answers["block_suggestion"] = {"options": NODES}
        dialog = await open_modal(app, page)
        box = dialog.get_by_role("combobox", name="Search")
        await box.press_sequentially("gpu")
        await dialog.get_by_role("listbox", name="Suggestions").get_by_role("option", name="gpu-3").wait_for()
        assert app.payloads("block_suggestion")[-1]["value"] == "gpu"
        await box.press("ArrowDown")
        await box.press("ArrowDown")
        await box.press("Enter")
        assert await box.input_value() == "gpu-2"
        assert await box.get_attribute("aria-expanded") == "false"
        await dialog.get_by_label("Pod").fill("ml/x")
        await page.keyboard.press("Enter")
        await dialog.wait_for(state="detached")
        assert (
            app.payloads("view_submission")[0]["view"]["state"]["values"]["find"]["find"]["selected_option"] == NODES[1]
        )

    chrome.run(scenario, path=AT_CHANNEL)


def test_opening_the_home_tab_tells_the_app_and_shows_what_it_publishes(chrome: Chrome) -> None:
    button = {"type": "button", "action_id": "refresh", "text": plain("Refresh")}
    home = {"type": "home", "blocks": [{"type": "section", "text": mrkdwn("*3 pods wait*"), "accessory": button}]}

    async def scenario(slack, app, page):
        await page.get_by_role("link", name="hami-bot").click()
        await page.get_by_role("link", name="Home", exact=True).click()
        await slack.wait_for(
            lambda: [payload for payload in app.heard if payload.get("event", {}).get("type") == "app_home_opened"]
        )
        await page.get_by_text("has not published a Home tab").wait_for()
        await app.call("views.publish", user_id="U0ADA00001", view=home)
        await page.get_by_text("3 pods wait").wait_for()
        await page.get_by_role("button", name="Refresh").click()
        await slack.wait_for(lambda: app.payloads("block_actions"))
        assert app.payloads("block_actions")[0]["container"]["type"] == "view"

    chrome.run(scenario)


def test_the_inspector_shows_requests_answers_and_violations(chrome: Chrome) -> None:
    async def scenario(slack, app, page):
        toggle = page.get_by_role("button", name="Inspector", exact=True)
        await toggle.click()
        assert await toggle.get_attribute("aria-expanded") == "true"
        pane = page.get_by_role("region", name="Inspector")
        violation = {"code": "too_long", "message": "over 3000 characters", "pointer": "/blocks/0/text/text"}
        slack.journal.write(
            "api",
            "chat.postMessage",
            ok=False,
            error="invalid_blocks",
            request={"text": "<b>x</b>"},
            response={"ok": False},
            violations=(violation,),
        )
        slack.journal.write("api", "auth.test", response={"ok": True})
        entry = pane.locator("details", has_text="chat.postMessage")
        await entry.locator("summary").click()
        assert "invalid_blocks" in await entry.inner_text()
        assert "1 violation" in await entry.inner_text()
        assert "over 3000 characters" in await entry.inner_text()
        assert '"text": "<b>x</b>"' in await entry.inner_text()
        await pane.get_by_label("Only failures and violations").check()
        assert await pane.locator("details", has_text="auth.test").is_hidden()
        await pane.get_by_label("Filter the journal").fill("nothing like this")
        assert await entry.is_hidden()
        await page.keyboard.press("Escape")
        await pane.wait_for(state="hidden")
        assert await toggle.evaluate("button => button === document.activeElement")

    chrome.run(scenario, path=AT_CHANNEL)
