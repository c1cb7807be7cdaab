// The task_card and plan blocks: the progress of a run.

import { h } from "./dom.js";
import { link, plain, textObject } from "./text-view.js";
import { safeUrl } from "./text-urls.js";
import { richText } from "./block-richtext.js";

const STATUS = { pending: ["Waiting", "○"], in_progress: ["Running", "◐"], complete: ["Done", "●"], error: ["Failed", "✖"] };

export function taskCard(block) {
  const status = Object.hasOwn(STATUS, block.status) ? block.status : "pending";
  const [label, sign] = STATUS[status];
  return h("div", { class: `task task-${status}` },
    h("div", { class: "task-head" }, h("span", { class: "task-sign", "aria-hidden": "true", text: sign }), h("strong", {}, textObject(block.title)), h("span", { class: "task-status", text: label })),
    block.details ? h("div", { class: "task-body" }, richText(block.details)) : null,
    block.output ? h("div", { class: "task-body" }, richText(block.output)) : null,
    block.sources?.length ? h("ul", { class: "task-sources" }, block.sources.map((one) => h("li", {}, safeUrl(one.url) ? link(safeUrl(one.url), one.text || one.url) : plain(one.text)))) : null);
}

export function plan(block) {
  return h("div", { class: "plan" }, h("strong", {}, textObject(block.title)), (block.tasks ?? []).map(taskCard));
}
