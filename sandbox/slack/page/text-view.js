// Text nodes (text-mrkdwn.js, text-markdown.js) and Slack's text objects as elements.

import { clip, h } from "./dom.js";
import { channelById, channelName, here, userName } from "./workspace.js";
import { EMOJI } from "./text-emoji.js";
import { parseMarkdown } from "./text-markdown.js";
import { parseMrkdwn } from "./text-mrkdwn.js";

// Characters that reorder what follows them. They are shown, not obeyed: a name must not be able to rewrite the line it stands in.
const REORDERING = /[\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069]/g;
const LONG = 6000;
const LONG_LINES = 80;
const SHORT = 3000;
const SHORT_LINES = 40;
const TAGS = { b: "strong", i: "em", s: "s", code: "code", pre: "pre", quote: "blockquote", p: "p" };

/** Text as it is, with characters that would reorder it made visible. */
export function plain(text) {
  const all = String(text ?? "");
  const parts = [];
  let from = 0;
  for (const found of all.matchAll(REORDERING)) {
    const code = `U+${found[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
    parts.push(all.slice(from, found.index), h("span", { class: "control-mark", title: "A character that changes the reading direction", text: code }));
    from = found.index + 1;
  }
  return [...parts, all.slice(from)].filter((part) => part !== "");
}

/** A name on one line: bounded, isolated from the direction of its surroundings. */
export function name(text, props = {}) {
  return h("bdi", { class: "name", title: String(text).length > 60 ? clip(text, 300) : null, ...props }, plain(clip(text, 200)));
}

export function link(url, label) {
  return h("a", { href: url, target: "_blank", rel: "noopener noreferrer", title: clip(url, 300) }, plain(label));
}

function textNodes(nodes) {
  return nodes.map(textNode);
}

function textNode(node) {
  if (TAGS[node.t]) return h(TAGS[node.t], node.t === "pre" ? { tabindex: "0", role: "group", "aria-label": "Preformatted text" } : {}, textNodes(node.c));
  switch (node.t) {
    case "text":
      return plain(node.s);
    case "br":
      return h("br");
    case "link":
      return link(node.url, node.s);
    case "emoji":
      return emoji(node.name);
    case "user":
      return userPill(node.id);
    case "channel":
      return h("span", { class: "pill" }, "#", plain(clip(channelById(node.id) ? channelName(channelById(node.id)) : node.s || node.id, 80)));
    case "group":
      return loud(node.s || `@${node.id}`);
    case "broadcast":
      return loud(node.s);
    case "h":
      return h("p", { class: "md-heading", role: "heading", "aria-level": "2" }, textNodes(node.c));
    case "list":
      return h(node.ordered ? "ol" : "ul", {}, node.items.map((item) => h("li", {}, textNodes(item))));
    case "hr":
      return h("hr");
    case "grid":
      return grid(node.rows);
    default:
      throw new Error(`no view of text node ${node.t}`);
  }
}

function grid([head, ...rows]) {
  return h(
    "div",
    { class: "table-scroll", tabindex: "0", role: "group", "aria-label": "Table" },
    h("table", {}, h("thead", {}, h("tr", {}, head.map((cell) => h("th", { scope: "col" }, textNodes(cell))))), h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell) => h("td", {}, textNodes(cell))))))),
  );
}

export function userPill(id) {
  const mine = id === here.me ? " pill-me" : "";
  return h("span", { class: `pill${mine}` }, "@", plain(clip(userName(id), 80)));
}

/** Whatever notifies a crowd, so that nobody overlooks one that untrusted text brought in. */
export function loud(label) {
  return h("strong", { class: "pill pill-loud", title: "This notifies many people" }, "⚠ ", plain(clip(label, 80)));
}

export function emoji(name) {
  return EMOJI.has(name) ? h("span", { class: "emoji", role: "img", "aria-label": `:${name}:`, title: `:${name}:`, text: EMOJI.get(name) }) : `:${name}:`;
}

/** A text object of Block Kit ({type: "mrkdwn"|"plain_text", text}), or a bare string as plain text. */
export function textObject(object) {
  if (typeof object === "string") return plain(object);
  if (!object) return [];
  if (object.type === "mrkdwn") return [mrkdwn(object.text, { verbatim: object.verbatim })];
  return object.emoji === false ? plain(object.text) : plainWithEmoji(object.text);
}

function plainWithEmoji(text) {
  return String(text ?? "")
    .split(/(:[a-z0-9_+-]{1,40}:)/)
    .map((part) => (part.startsWith(":") && EMOJI.has(part.slice(1, -1)) ? emoji(part.slice(1, -1)) : plain(part)));
}

export function mrkdwn(source, options) {
  return folded(source, (text) => h("div", { class: "rich" }, textNodes(parseMrkdwn(text, options))));
}

export function markdown(source) {
  return folded(source, (text) => h("div", { class: "rich markdown" }, textNodes(parseMarkdown(text))));
}

/** `view` of the text, or of its beginning with a button for the rest when it is very long. */
export function folded(source, view) {
  const text = String(source ?? "");
  if (text.length <= LONG && text.split("\n", LONG_LINES + 1).length <= LONG_LINES) return view(text);
  const box = h("div", { class: "folded" });
  const show = (all) => {
    const button = h("button", { type: "button", class: "link-button", "aria-expanded": String(all), on: { click: () => { show(!all); box.lastChild.focus(); } } },
      all ? "Show less" : `Show more (${text.length.toLocaleString("en")} characters)`);
    box.replaceChildren(view(all ? text : beginning(text)), button);
  };
  show(false);
  return box;
}

/** A beginning that ends neither inside an <entity>, nor inside an &escape;. */
function beginning(text) {
  const short = text.split("\n", SHORT_LINES).join("\n").slice(0, SHORT);
  return `${short.replace(/(?:<[^<>\n]*|&[a-z]{0,3}|[\uD800-\uDBFF])$/, "")}…`;
}
