// The list of places: start page, channels, direct messages, the app.

import { byId, h } from "./dom.js";
import { name } from "./text-view.js";
import { channelName, here, isAppDm, openChannels } from "./workspace.js";

const unread = new Set();

export function markUnread(channel) {
  unread.add(channel);
}

export function markRead(channel) {
  unread.delete(channel);
}

/** Draws the list; `current` is the id of the open channel, or "start". */
export function drawSidebar(current) {
  const all = openChannels();
  const part = (title, channels, sign) => (channels.length ? [h("h2", { text: title }), h("ul", {}, channels.map((one) => h("li", {}, entry(one, sign(one), current))))] : []);
  byId("places").replaceChildren(
    h("ul", {}, h("li", {}, h("a", { href: "#/start", class: "place", "data-key": "place/start", "aria-current": current === "start" ? "page" : null }, h("span", { class: "sign", "aria-hidden": "true", text: "★" }), "Start here"))),
    ...part("Channels", all.filter((one) => !one.is_im), (one) => (one.is_private ? "🔒" : "#")),
    ...part("Direct messages", all.filter((one) => one.is_im && !isAppDm(one)), () => "@"),
    ...part("App", all.filter(isAppDm), () => "◆"),
  );
}

function entry(channel, sign, current) {
  const isUnread = unread.has(channel.id) && channel.id !== current;
  return h("a", { href: `#/c/${channel.id}`, class: `place${isUnread ? " unread" : ""}`, "data-key": `place/${channel.id}`, "aria-current": channel.id === current ? "page" : null },
    h("span", { class: "sign", "aria-hidden": "true", text: sign }),
    name(channelName(channel)),
    isUnread ? h("span", { class: "visually-hidden", text: " (new messages)" }) : null,
    isAppDm(channel) ? h("span", { class: `dot${here.app.connected ? " on" : ""}`, role: "img", "aria-label": here.app.connected ? "connected" : "not connected" }) : null);
}
