// A live list of messages: only what changed is drawn anew, so focus, scroll position and typed text stay.

import { collect } from "./block-values.js";
import { h, keepFocus } from "./dom.js";
import { messageView } from "./message.js";

const NEAR_END = 60; // px: closer than this to the end means the person follows the conversation

/** A scrolling log in `parent`. `options`: {label, place, onThread, empty: text of an empty list}. */
export function messageList(parent, options) {
  const inner = h("div", { class: "log-inner" });
  const status = h("p", { class: "app-status", hidden: true });
  const log = h("div", { class: "log", role: "log", "aria-live": "polite", "aria-label": options.label, tabindex: "0" }, inner, status);
  const drawn = new Map();
  let following = true;
  parent.replaceChildren(log);

  const toEnd = () => {
    if (following) log.scrollTop = log.scrollHeight;
  };
  log.addEventListener("scroll", () => {
    following = log.scrollHeight - log.scrollTop - log.clientHeight < NEAR_END;
  });
  // Pictures and previews grow after they were drawn.
  const watcher = new ResizeObserver(toEnd);
  watcher.observe(inner);
  watcher.observe(log);

  function draw(message) {
    const key = `${message.ts}${message.ephemeral ? "/only-you" : ""}`;
    const json = JSON.stringify(message);
    const before = drawn.get(key);
    if (before?.json === json) return key;
    const node = messageView(message, { place: options.place, values: before ? collect(before.node) : {}, onThread: options.onThread });
    before?.node.replaceWith(node);
    drawn.set(key, { json, node });
    return key;
  }

  return {
    log,
    show(messages) {
      keepFocus(() => {
        const keys = messages.map(draw);
        const present = new Set(keys);
        for (const [key, { node }] of drawn) {
          if (present.has(key)) continue;
          node.remove();
          drawn.delete(key);
        }
        keys.forEach((key, at) => {
          const { node } = drawn.get(key);
          if (inner.children[at] !== node) inner.insertBefore(node, inner.children[at] ?? null);
        });
      });
      inner.querySelector(":scope > .empty")?.remove();
      if (!messages.length) inner.append(h("p", { class: "empty", text: options.empty }));
      toEnd();
    },
    /** The line an app shows while it works ("is looking at the pod…"); empty takes it away. */
    status(text) {
      status.textContent = text;
      status.hidden = !text;
      toEnd();
    },
    toEnd() {
      following = true;
      toEnd();
    },
    close() {
      watcher.disconnect();
    },
  };
}
