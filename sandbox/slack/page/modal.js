// Modals: the top of the person's stack of views, live while the app updates it.

import { explain, read, send } from "./api.js";
import { renderBlocks } from "./blocks.js";
import { makeScope } from "./block-scope.js";
import { collect } from "./block-values.js";
import { openDialog } from "./dialog.js";
import { coalesced, freshId, h, iconButton, keepFocus } from "./dom.js";
import { unpressed } from "./press.js";
import { textObject } from "./text-view.js";
import { here } from "./workspace.js";

const VALUE_FIELDS = ["value", "selected_option", "selected_options", "selected_date", "selected_time", "selected_user", "selected_channel", "selected_conversation"];

/** Keeps the dialog in step with the server; `refresh()` re-reads the stack. */
export function modals() {
  let dialog = null;
  let view = null;
  let drawn = "";
  let errors = {};
  let depth = 0;

  const refresh = coalesced(async () => {
    const answer = await read("views", { user: here.me });
    if (answer.ok) unpressed(() => show(answer.stack));
  });

  function show(stack) {
    const top = stack.at(-1) ?? null;
    const json = JSON.stringify([top, stack.length]);
    if (json === drawn) return;
    drawn = json;
    if (!top) return shut();
    const same = view?.id === top.id;
    if (!same) errors = {};
    const values = same ? collect(dialog.box) : (top.state?.values ?? {});
    view = top;
    depth = stack.length;
    return draw(values, !same);
  }

  function shut() {
    dialog?.close();
    [dialog, view, drawn, errors] = [null, null, "", {}];
  }

  function draw(values, fresh) {
    const titleId = freshId("modal");
    const content = form(titleId, values);
    if (dialog) {
      keepFocus(() => {
        dialog.box.setAttribute("aria-labelledby", titleId);
        dialog.box.replaceChildren(content);
      });
    } else {
      dialog = openDialog({ className: "dialog modal", labelledBy: titleId, content, onDismiss: dismiss });
    }
    if (fresh || !dialog.box.contains(document.activeElement)) focusFirst();
  }

  function focusFirst() {
    const body = dialog.box.querySelector(".dialog-body");
    const wanted = body.querySelector("[data-autofocus]") ?? body.querySelector(".text-input, .select, .choices input, button");
    (wanted ?? dialog.box.querySelector(".dialog-foot button:last-child")).focus();
  }

  function form(titleId, values) {
    const scope = makeScope({ key: view.id, target: { view_id: view.id }, values, errors });
    const body = h("div", { class: "dialog-body", "data-state-root": "", tabindex: "-1" }, renderBlocks(view.blocks, scope));
    return h("form", { class: "modal-form", novalidate: true, on: { submit } },
      h("div", { class: "dialog-head" }, h("h2", { id: titleId }, textObject(view.title)), depth > 1 ? h("span", { class: "muted", text: `view ${depth} of a stack` }) : null, iconButton("close", "Close", dismiss)),
      body,
      h("p", { class: "modal-problem action-error", role: "alert", hidden: true }),
      h("div", { class: "dialog-foot" },
        h("button", { type: "button", class: "button", on: { click: dismiss } }, view.close ? textObject(view.close) : "Close"),
        view.submit ? h("button", { type: "submit", class: "button primary" }, textObject(view.submit)) : null));
  }

  function problem(words) {
    const line = dialog?.box.querySelector(".modal-problem");
    if (!line) return;
    line.textContent = words;
    line.hidden = !words;
  }

  async function submit(event) {
    event.preventDefault();
    if (!view.submit) return;
    const sent = view.id;
    const values = collect(dialog.box);
    const missing = missingAnswers(view.blocks, values);
    if (Object.keys(missing).length) return showErrors(missing, values);
    const buttons = [...dialog.box.querySelectorAll(".dialog-foot button")];
    for (const one of buttons) one.disabled = true;
    problem("");
    const answer = await send("view_submit", { user: here.me, view_id: sent, state: { values } });
    for (const one of buttons) one.disabled = false;
    if (view?.id !== sent) return undefined;
    if (!answer.ok) return problem(`The app did not take this: ${answer.error}. ${explain(answer.error)}`);
    if (answer.errors) return showErrors(answer.errors, collect(dialog.box));
    return refresh();
  }

  function showErrors(found, values) {
    errors = found;
    draw(values, false);
    const first = dialog.box.querySelector(".has-error :is(input, select, textarea)");
    first?.focus();
    const known = new Set(view.blocks.map((block) => block.block_id));
    const strangers = Object.entries(found).filter(([id]) => !known.has(id));
    problem(strangers.map(([id, words]) => `${id}: ${words}`).join(" "));
  }

  async function dismiss() {
    const sent = view.id;
    const answer = await send("view_close", { user: here.me, view_id: sent });
    if (!answer.ok && view?.id === sent) shut();
    await refresh();
  }

  return { refresh, shut };
}

/** {block_id: words} for the required inputs without an answer, as Slack checks before it sends. */
function missingAnswers(blocks, values) {
  const found = {};
  for (const block of blocks) {
    if (block.type !== "input" || block.optional) continue;
    const state = values[block.block_id]?.[block.element.action_id] ?? {};
    const given = VALUE_FIELDS.map((field) => state[field]).find((one) => one !== undefined);
    const empty = given === undefined || given === null || given === "" || (Array.isArray(given) && !given.length);
    const short = typeof given === "string" && given.length < (block.element.min_length ?? 0);
    if (empty) found[block.block_id] = "Please complete this required field.";
    else if (short) found[block.block_id] = `At least ${block.element.min_length} characters.`;
  }
  return found;
}
