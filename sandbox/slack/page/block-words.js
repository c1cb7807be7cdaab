// Blocks that only show something: section, header, context, divider, image, markdown, alert.

import { h } from "./dom.js";
import { markdown, textObject } from "./text-view.js";
import { element } from "./block-elements.js";
import { picture } from "./block-picture.js";

export function section(block, scope) {
  const words = h("div", { class: "section-words" },
    block.text ? h("div", { class: "section-text" }, textObject(block.text)) : null,
    block.fields ? h("div", { class: "fields" }, block.fields.map((field) => h("div", { class: "field" }, textObject(field)))) : null);
  const accessory = block.accessory ? h("div", { class: "accessory" }, element(block.accessory, block, scope)) : null;
  return h("div", { class: "section" }, words, accessory);
}

export function header(block) {
  return h("div", { class: "header-block", role: "heading", "aria-level": "2" }, textObject(block.text));
}

export function context(block) {
  return h("div", { class: "context" }, block.elements.map((one) => (one.type === "image" ? picture(one, "context-image") : h("span", { class: "context-text" }, textObject(one)))));
}

export function divider() {
  return h("hr", { class: "divider" });
}

export function image(block) {
  return h("figure", { class: "image-block" }, block.title ? h("figcaption", {}, textObject(block.title)) : null, picture(block, "block-image"));
}

export function markdownBlock(block) {
  return h("div", {}, markdown(block.text));
}

const LEVELS = { default: ["Note", "✱"], info: ["Info", "ℹ"], warning: ["Warning", "⚠"], error: ["Error", "✖"], success: ["Success", "✔"] };

export function alert(block) {
  const level = Object.hasOwn(LEVELS, block.level) ? block.level : "default";
  const [label, sign] = LEVELS[level];
  return h("div", { class: `alert alert-${level}` }, h("span", { class: "alert-sign", role: "img", "aria-label": label, text: sign }), h("div", {}, textObject(block.text)));
}
