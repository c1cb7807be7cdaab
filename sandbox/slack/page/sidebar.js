// The list of places: start page, channels, direct messages, the app.

import { byId, h, order } from "./dom.js";
import { name } from "./text-view.js";
import { channelName, here, isAppDm, isDirect, openChannels } from "./workspace.js";

const unread = new Set();
const rows = new Map(); // channel id -> what is drawn of it
const parts = new Map(); // title -> {heading, list}
const start = h("a", { href: "#/start", class: "place", "data-key": "place/start" }, h("span", { class: "sign", "aria-hidden": "true", text: "★" }), "Start here");
const top = h("ul", {}, h("li", {}, start));

export function markUnread(channel) {
  unread.add(channel);
}

export function markRead(channel) {
  unread.delete(channel);
}

/** Draws the list; `current` is the id of the open channel, or "start". What was there before stays: a click on it may be under way. */
export function drawSidebar(current) {
  const all = openChannels();
  mark(start, current === "start");
  order(byId("places"), [
    top,
    ...part("Channels", all.filter((one) => !isDirect(one)), (one) => (one.is_shared ? "⇄" : one.is_private ? "🔒" : "#"), current),
    ...part("Direct messages", all.filter((one) => isDirect(one) && !isAppDm(one)), () => "@", current),
    ...part("App", all.filter(isAppDm), () => "◆", current),
  ]);
}

function part(title, channels, sign, current) {
  if (!channels.length) return [];
  if (!parts.has(title)) parts.set(title, { heading: h("h2", { text: title }), list: h("ul") });
  const { heading, list } = parts.get(title);
  order(list, channels.map((one) => place(one, sign(one), current)));
  return [heading, list];
}

function place(channel, sign, current) {
  const row = rows.get(channel.id) ?? newRow(channel.id);
  const isUnread = unread.has(channel.id) && channel.id !== current;
  const title = channelName(channel);
  mark(row.link, channel.id === current);
  row.link.classList.toggle("unread", isUnread);
  row.sign.textContent = sign;
  if (row.title !== title) row.label.replaceChildren(name(title));
  row.title = title;
  row.news.textContent = isUnread ? " (new messages)" : "";
  row.dot.hidden = !isAppDm(channel);
  row.dot.classList.toggle("on", here.app.connected);
  row.dot.setAttribute("aria-label", here.app.connected ? "connected" : "not connected");
  return row.node;
}

function newRow(id) {
  const row = {
    sign: h("span", { class: "sign", "aria-hidden": "true" }),
    label: h("span", { class: "label" }),
    news: h("span", { class: "visually-hidden" }),
    dot: h("span", { class: "dot", role: "img" }),
  };
  row.link = h("a", { href: `#/c/${id}`, class: "place", "data-key": `place/${id}` }, row.sign, row.label, row.news, row.dot);
  row.node = h("li", {}, row.link);
  rows.set(id, row);
  return row;
}

function mark(link, isCurrent) {
  if (isCurrent) link.setAttribute("aria-current", "page");
  else link.removeAttribute("aria-current");
}
