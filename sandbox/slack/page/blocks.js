// Block Kit: blocks of a message, a modal or a Home tab as elements.

import { h } from "./dom.js";
import { jsonView } from "./json.js";
import { chart } from "./block-chart.js";
import { actions, contextActions, input } from "./block-interactive.js";
import { richText } from "./block-richtext.js";
import { dataTable, table } from "./block-tables.js";
import { plan, taskCard } from "./block-tasks.js";
import { alert, context, divider, header, image, markdownBlock, section } from "./block-words.js";

const VIEWS = {
  actions,
  alert,
  context,
  context_actions: contextActions,
  data_table: dataTable,
  data_visualization: chart,
  divider,
  header,
  image,
  input,
  markdown: markdownBlock,
  plan,
  rich_text: richText,
  section,
  table,
  task_card: taskCard,
};

/** Elements for `blocks`. `scope` says where they are (block-scope.js): it carries actions, kept values and errors. */
export function renderBlocks(blocks, scope) {
  return (blocks ?? []).map((block) => {
    const view = Object.hasOwn(VIEWS, block?.type) ? guarded(VIEWS[block.type], block, scope) : unknown(block, "This page does not know the block");
    view.classList.add("block", "block-kind");
    view.dataset.block = String(block?.type);
    return view;
  });
}

/** A block of a wrong shape must not take the page with it: it is shown as what it is. */
function guarded(view, block, scope) {
  try {
    return view(block, scope);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    return unknown(block, `The block is not of the shape this page expects (${error.message}):`);
  }
}

function unknown(block, words) {
  return h("div", { class: "unknown-block" }, h("p", {}, `${words} `, h("code", { text: String(block?.type).slice(0, 80) })), jsonView(block, "Raw JSON of the block"));
}
