// Attachments: how monitoring tools still write. Blocks, or older fields beside a coloured bar.

import { renderBlocks } from "./blocks.js";
import { h, svg } from "./dom.js";
import { slackDate } from "./text-date.js";
import { safeUrl } from "./text-urls.js";
import { link, mrkdwn, plain } from "./text-view.js";

const COLOURS = { good: "#2eb67d", warning: "#ecb22e", danger: "#e01e5a" };
const HEX = /^#?([0-9a-f]{6}|[0-9a-f]{3})$/i;

export function attachmentView(one, scope) {
  return [
    one.pretext ? h("div", { class: "attachment-pretext" }, mrkdwn(one.pretext)) : null,
    h("div", { class: "attachment" }, bar(one.color), one.blocks ? renderBlocks(one.blocks, scope) : older(one)),
  ];
}

/** A picture, because scripts of this page write no styles. */
function bar(color) {
  const hex = HEX.exec(color ?? "");
  const fill = Object.hasOwn(COLOURS, color) ? COLOURS[color] : hex && `#${hex[1]}`;
  return fill ? svg("svg", { class: "attachment-bar", "aria-hidden": "true" }, svg("rect", { width: "100%", height: "100%", fill })) : null;
}

function older(one) {
  const parts = [title(one), one.text ? mrkdwn(one.text) : null, fields(one.fields ?? []), footer(one)];
  return parts.some(Boolean) ? parts : mrkdwn(one.fallback ?? "");
}

function title(one) {
  const url = one.title_link && safeUrl(one.title_link);
  return one.title ? h("strong", { class: "attachment-title" }, url ? link(url, one.title) : plain(one.title)) : null;
}

function fields(all) {
  return all.length ? h("div", { class: "fields" }, all.map((one) => h("div", { class: `field${one.short ? "" : " field-wide"}` }, h("strong", {}, plain(one.title)), mrkdwn(one.value)))) : null;
}

function footer(one) {
  const at = one.ts ? slackDate(Number(one.ts), "{date_short} {time}") : null;
  const words = [one.footer, at].filter(Boolean).join(" | ");
  return words ? h("p", { class: "attachment-footer muted" }, plain(words)) : null;
}
