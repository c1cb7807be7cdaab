// The box in which people change what they wrote.

import { explain, send } from "./api.js";
import { openDialog } from "./dialog.js";
import { freshId, h } from "./dom.js";
import { here, userName } from "./workspace.js";

export function editMessage(message) {
  const id = freshId("edit");
  const field = h("textarea", { class: "text-input", rows: "4", "aria-labelledby": id });
  const problem = h("p", { class: "modal-problem action-error", role: "alert", hidden: true });
  const close = () => dialog.close();
  field.value = asTyped(message.text);

  async function save(event) {
    event.preventDefault();
    const answer = await send("edit", { user: here.me, channel: message.channel, ts: message.ts, text: field.value });
    if (answer.ok) return close();
    problem.textContent = `The message was not changed: ${answer.error}. ${explain(answer.error)}`;
    problem.hidden = false;
  }

  const dialog = openDialog({
    className: "dialog",
    labelledBy: id,
    onDismiss: close,
    content: h("form", { class: "modal-form", on: { submit: save } },
      h("div", { class: "dialog-head" }, h("h2", { id, text: "Edit message" })),
      h("div", { class: "dialog-body" }, field),
      problem,
      h("div", { class: "dialog-foot" },
        h("button", { type: "button", class: "button", text: "Cancel", on: { click: close } }),
        h("button", { type: "submit", class: "button primary", text: "Save" }))),
  });
  field.focus();
}

/** Stored text as its author typed it: without escapes, mentions by name. */
function asTyped(text) {
  const bare = text.replace(/<([@#!]?)([^<>|]*)(?:\|([^<>]*))?>/g, (_, mark, what, label) => {
    if (mark === "@") return `@${userName(what)}`;
    if (mark) return `${mark === "#" ? "#" : "@"}${label ?? what}`;
    return label ?? what;
  });
  return bare.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
}
