// Raw JSON, for the inspector and for what the page cannot show otherwise.

import { h } from "./dom.js";

const FIRST = 20_000;

/** A labelled, scrollable block of indented JSON; very long ones begin with their first part. */
export function jsonView(value, label) {
  const text = typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? "null");
  const pre = h("pre", { class: "json", tabindex: "0", role: "group", "aria-label": label, text: text.slice(0, FIRST) });
  if (text.length <= FIRST) return pre;
  const more = h("button", { type: "button", class: "link-button", text: `Show all ${text.length.toLocaleString("en")} characters` });
  more.addEventListener("click", () => {
    pre.textContent = text;
    more.remove();
    pre.focus();
  });
  return h("div", {}, pre, more);
}
