// Modal dialogs: the browser's own <dialog> makes the rest of the page inert; Tab stays inside and focus goes back.

import { freshId, h } from "./dom.js";
import { textObject } from "./text-view.js";

const FOCUSABLE = "a[href], button:not([disabled]), input:not([disabled]), select:not([disabled]), textarea:not([disabled]), summary, [tabindex='0']";

/** Shows `content` in a dialog; `onDismiss` runs on Escape and decides what happens. Returns {box, close}. */
export function openDialog({ content, labelledBy, className, onDismiss }) {
  const opener = document.activeElement;
  const key = opener?.dataset?.key;
  const box = h("dialog", { class: className, "aria-labelledby": labelledBy }, content);
  box.addEventListener("cancel", (event) => {
    event.preventDefault();
    onDismiss();
  });
  box.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      event.preventDefault();
      event.stopPropagation();
      onDismiss();
    }
    if (event.key === "Tab") wrap(event, box);
  });
  document.body.append(box);
  box.showModal();
  const close = () => {
    box.close();
    box.remove();
    const back = opener?.isConnected ? opener : key && document.querySelector(`[data-key="${CSS.escape(key)}"]`);
    (back || document.querySelector("#main textarea") || document.getElementById("main")).focus();
  };
  return { box, close };
}

function wrap(event, box) {
  const all = [...box.querySelectorAll(FOCUSABLE)].filter((one) => one.offsetParent !== null);
  const [first, last] = [all[0], all.at(-1)];
  const at = document.activeElement;
  if (event.shiftKey ? at === first || !box.contains(at) : at === last || !box.contains(at)) {
    event.preventDefault();
    (event.shiftKey ? last : first)?.focus();
  }
}

/** Shows a confirmation object of Block Kit; true when the person agreed. */
export function confirmed(confirm) {
  return new Promise((resolve) => {
    const id = freshId("confirm");
    const finish = (answer) => {
      dialog.close();
      resolve(answer);
    };
    const danger = confirm.style === "danger" ? "danger" : "primary";
    const dialog = openDialog({
      className: "dialog confirm",
      labelledBy: id,
      onDismiss: () => finish(false),
      content: [
        h("h2", { id }, textObject(confirm.title)),
        h("div", { class: "dialog-body" }, textObject(confirm.text)),
        h("div", { class: "dialog-foot" },
          h("button", { type: "button", class: "button", on: { click: () => finish(false) } }, textObject(confirm.deny ?? "Cancel")),
          h("button", { type: "button", class: `button ${danger}`, on: { click: () => finish(true) } }, textObject(confirm.confirm ?? "Confirm"))),
      ],
    });
  });
}

/** A dialog that only shows something. */
export function showDialog(title, content) {
  const id = freshId("dialog");
  const dialog = openDialog({
    className: "dialog wide",
    labelledBy: id,
    onDismiss: () => dialog.close(),
    content: [
      h("h2", { id, text: title }),
      h("div", { class: "dialog-body" }, content),
      h("div", { class: "dialog-foot" }, h("button", { type: "button", class: "button primary", text: "Close", on: { click: () => dialog.close() } })),
    ],
  });
}
