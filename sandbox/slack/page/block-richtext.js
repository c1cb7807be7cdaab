// The rich_text block: its text elements hold raw text in which nothing is parsed.

import { clip, h } from "./dom.js";
import { slackDate } from "./text-date.js";
import { emoji, folded, link, loud, plain, userPill } from "./text-view.js";
import { EMOJI } from "./text-emoji.js";
import { safeUrl } from "./text-urls.js";
import { channelById, channelName } from "./workspace.js";

const STYLES = [["bold", "strong"], ["italic", "em"], ["strike", "s"], ["underline", "u"], ["code", "code"]];

export function richText(block) {
  return h("div", { class: "rich" }, block.elements.map(part));
}

function part(one) {
  switch (one.type) {
    case "rich_text_section":
      return h("div", {}, one.elements.map(span));
    case "rich_text_preformatted":
      return preformatted(one);
    case "rich_text_quote":
      return h("blockquote", {}, one.elements.map(span));
    case "rich_text_list":
      return h(one.style === "ordered" ? "ol" : "ul", { class: `indent-${Math.min(Math.max(one.indent ?? 0, 0), 8)}`, start: one.style === "ordered" && one.offset ? one.offset + 1 : null },
        one.elements.map((item) => h("li", {}, item.elements.map(span))));
    default:
      throw new TypeError(`rich_text element ${one.type}`);
  }
}

function preformatted(one) {
  const onlyText = one.elements.every((each) => each.type === "text");
  const pre = (children) => h("pre", { tabindex: "0", role: "group", "aria-label": "Preformatted text" }, children);
  return onlyText ? folded(one.elements.map((each) => each.text).join(""), (text) => pre(plain(text))) : pre(one.elements.map(span));
}

function span(one) {
  let node = content(one);
  for (const [style, tag] of STYLES) if (one.style?.[style]) node = h(tag, {}, node);
  return node;
}

function content(one) {
  switch (one.type) {
    case "text":
      return one.text.length > 3000 ? folded(one.text, (text) => h("span", {}, plain(text))) : plain(one.text);
    case "link":
      return safeUrl(one.url) ? link(safeUrl(one.url), one.text || one.url) : plain(`${one.text ?? ""} (${one.url})`);
    case "emoji":
      return one.unicode && !EMOJI.has(one.name) ? fromUnicode(one) : emoji(one.name);
    case "user":
      return userPill(one.user_id);
    case "channel":
      return h("span", { class: "pill" }, "#", plain(clip(channelById(one.channel_id) ? channelName(channelById(one.channel_id)) : one.channel_id, 80)));
    case "usergroup":
      return loud(`@${one.usergroup_id}`);
    case "broadcast":
      return loud(`@${one.range}`);
    case "date":
      return plain(slackDate(one.timestamp, one.format) ?? one.fallback ?? new Date(one.timestamp * 1000).toISOString());
    case "color":
      return h("code", {}, plain(one.value));
    default:
      throw new TypeError(`rich_text element ${one.type}`);
  }
}

/** `unicode` is hexadecimal code points joined with "-"; anything else is shown as the name. */
function fromUnicode(one) {
  const points = one.unicode.split("-").map((each) => Number.parseInt(each, 16));
  const good = points.every((each) => each > 0xa0 && each <= 0x10ffff);
  return good ? h("span", { class: "emoji", role: "img", "aria-label": `:${one.name}:`, text: String.fromCodePoint(...points) }) : `:${one.name}:`;
}
