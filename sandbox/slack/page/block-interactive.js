// Blocks that people act on: actions, input, context_actions.

import { freshId, h } from "./dom.js";
import { textObject } from "./text-view.js";
import { element } from "./block-elements.js";

export function actions(block, scope) {
  return h("div", { class: "actions" }, block.elements.map((one) => element(one, block, scope)));
}

/** A labelled input. An error of this block (scope.errors) stands under it and is announced with it. */
export function input(block, scope) {
  const error = scope.errors?.[block.block_id];
  const hintId = block.hint ? freshId("hint") : null;
  const errorId = error ? freshId("error") : null;
  const labelId = freshId("label");
  const described = [errorId, hintId].filter(Boolean).join(" ") || null;
  const body = element(block.element, block, scope, { labelId, described, invalid: Boolean(error), required: !block.optional });
  return h("div", { class: `input-block${error ? " has-error" : ""}` },
    h("div", { class: "input-label", id: labelId }, textObject(block.label), block.optional ? h("span", { class: "optional", text: " (optional)" }) : null),
    body,
    error ? h("p", { class: "input-error", id: errorId, text: error }) : null,
    block.hint ? h("p", { class: "hint", id: hintId }, textObject(block.hint)) : null);
}

export function contextActions(block, scope) {
  return h("div", { class: "actions context-actions" }, block.elements.map((one) => element(one, block, scope)));
}
