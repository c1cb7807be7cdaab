// A live list of messages: only what changed is drawn anew, so focus, scroll position and typed text stay.

import { collect } from "./block-values.js";
import { h, keepFocus, order } from "./dom.js";
import { messageView } from "./message.js";
import { unpressed } from "./press.js";

const NEAR_END = 60; // px: closer than this to the end means the person follows the conversation
const AT_ONCE = 200; // messages drawn at first, and more with each press of the button above them

/** A scrolling log in `parent`. `options`: {label, place, onThread, empty: text of an empty list}. */
export function messageList(parent, options) {
  const inner = h("div", { class: "log-inner" });
  const status = h("p", { class: "app-status", hidden: true });
  const earlier = h("button", { type: "button", class: "link-button earlier", hidden: true, on: { click: showEarlier } });
  const log = h("div", { class: "log", role: "log", "aria-live": "polite", "aria-label": options.label, tabindex: "0" }, earlier, inner, status);
  const drawn = new Map();
  let following = true;
  let resting = 0; // where following put the log
  let all = [];
  const news = new Set(); // ts of the heads of threads with something unseen
  let first = null; // ts of the oldest message that is drawn
  parent.replaceChildren(log);

  // A message taller than the log is shown from its beginning: that is where an answer says what it found.
  const toEnd = () => {
    if (!following) return;
    const last = inner.lastElementChild;
    log.scrollTop = last && last.offsetHeight > log.clientHeight ? last.offsetTop : log.scrollHeight;
    resting = log.scrollTop;
  };
  log.addEventListener("scroll", () => {
    following = log.scrollTop === resting || log.scrollHeight - log.scrollTop - log.clientHeight < NEAR_END;
  });
  // Pictures and previews grow after they were drawn.
  const watcher = new ResizeObserver(toEnd);
  watcher.observe(inner);
  watcher.observe(log);

  function draw(message) {
    const key = `${message.ts}${message.ephemeral ? "/only-you" : ""}`;
    const isNews = news.has(message.ts);
    const json = JSON.stringify([message, isNews]);
    const before = drawn.get(key);
    if (before?.json === json) return key;
    const node = messageView(message, { place: options.place, values: before ? collect(before.node) : {}, news: isNews, onThread: options.onThread });
    before?.node.replaceWith(node);
    drawn.set(key, { json, node });
    return key;
  }

  function showEarlier() {
    const from = all.findIndex((one) => one.ts === first);
    const top = inner.firstElementChild;
    following = false;
    first = all[Math.max(from - AT_ONCE, 0)].ts;
    update();
    top.scrollIntoView({ block: "start" });
    (earlier.hidden ? log : earlier).focus({ preventScroll: true });
  }

  function update() {
    const known = all.findIndex((one) => one.ts === first);
    const from = known < 0 ? Math.max(all.length - AT_ONCE, 0) : known;
    first = all[from]?.ts ?? null;
    earlier.hidden = from === 0;
    earlier.textContent = `Show earlier messages (${from})`;
    keepFocus(() => place(all.slice(from).map(draw)));
    if (!all.length) inner.append(h("p", { class: "empty", text: options.empty }));
    toEnd();
  }

  /** Puts the drawn messages in this order and takes the others away. */
  function place(keys) {
    const present = new Set(keys);
    for (const key of [...drawn.keys()]) if (!present.has(key)) drawn.delete(key);
    order(inner, keys.map((key) => drawn.get(key).node));
  }

  return {
    /** Shows these messages, oldest first. */
    show(messages) {
      all = messages;
      unpressed(update);
    },
    /** Marks a thread as having something new, or as seen: an answer for one person in a thread is counted in no reply_count. */
    markThread(ts, isNews) {
      if (isNews) news.add(ts);
      else news.delete(ts);
      if (all.length) unpressed(update);
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
