// Where blocks stand (a message or a view), and how an interaction with them is sent.

import { explain, send } from "./api.js";
import { confirmed } from "./dialog.js";
import { h } from "./dom.js";
import { here } from "./workspace.js";
import { collect, rootOf } from "./block-values.js";

/**
 * key: unique prefix for the inputs' data-key; target: {channel, message_ts} or {view_id}, sent with every interaction;
 * values: state.values to show instead of the blocks' initial ones; errors: {block_id: text}.
 */
export function makeScope({ key, target, values = {}, errors = {} }) {
  return { key, target, values, errors, act: (node, action, confirm) => act(node, action, confirm, target) };
}

/** Asks first if `confirm` is given, then sends the action with the state of all inputs around it. An error is shown beside them. */
async function act(node, action, confirm, target) {
  const root = rootOf(node);
  if (confirm && !(await confirmed(confirm))) return false;
  node.setAttribute("aria-busy", "true");
  const answer = await send("action", { user: here.me, ...target, action, state: { values: collect(root) } });
  node.removeAttribute("aria-busy");
  tell(root, answer.ok ? "" : `The app did not take that: ${answer.error}. ${explain(answer.error)}`);
  return answer.ok;
}

function tell(root, words) {
  const line = [...root.children].find((one) => one.classList.contains("action-error"));
  if (line) line.remove();
  if (words) root.append(h("p", { class: "action-error", role: "alert", text: words }));
}
