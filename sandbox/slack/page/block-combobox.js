// external_select: a text field whose list of options is asked from the app.

import { explain, send } from "./api.js";
import { freshId, h } from "./dom.js";
import { here } from "./workspace.js";
import { register } from "./block-values.js";

const PAUSE = 200; // ms without typing before the app is asked

/** `attributes` are those every control has (block-elements.js). */
export function externalSelect(one, block, scope, field, attributes) {
  const before = scope.values[block.block_id]?.[one.action_id];
  const listId = freshId("options");
  const box = h("input", { class: "text-input", type: "text", role: "combobox", "aria-expanded": "false", "aria-autocomplete": "list", "aria-controls": listId, autocomplete: "off", placeholder: one.placeholder?.text ?? "Type to search", ...attributes });
  const list = h("ul", { id: listId, class: "options", role: "listbox", "aria-label": "Suggestions", hidden: true });
  const status = h("span", { class: "combo-status", role: "status" });
  const node = h("div", { class: "combobox" }, box, list, status);
  const least = one.min_query_length ?? 3;
  let selected = (before ? before.selected_option : one.initial_option) ?? null;
  let options = [];
  let active = -1;
  let timer = 0;
  let asked = 0;
  box.value = selected?.text.text ?? "";

  async function ask() {
    asked += 1;
    const mine = asked;
    status.textContent = "Searching…";
    const answer = await send("suggestions", { user: here.me, ...scope.target, action_id: one.action_id, block_id: block.block_id, value: box.value });
    if (mine !== asked || !node.isConnected) return;
    options = answer.ok === false ? [] : (answer.options ?? (answer.option_groups ?? []).flatMap((group) => group.options));
    status.textContent = answer.ok === false ? `No suggestions: ${answer.error}. ${explain(answer.error)}` : options.length ? "" : "No matches";
    active = -1;
    list.replaceChildren(...options.map((option, i) => h("li", { id: `${listId}-${i}`, role: "option", "aria-selected": "false", text: option.text.text, on: { pointerdown: (event) => { event.preventDefault(); choose(i); } } })));
    open(options.length > 0);
  }

  function open(yes) {
    list.hidden = !yes;
    box.setAttribute("aria-expanded", String(yes));
    if (!yes) box.removeAttribute("aria-activedescendant");
  }

  function point(at) {
    active = (at + options.length) % options.length;
    [...list.children].forEach((item, i) => item.setAttribute("aria-selected", String(i === active)));
    list.children[active].scrollIntoView({ block: "nearest" });
    box.setAttribute("aria-activedescendant", `${listId}-${active}`);
  }

  function choose(at) {
    selected = options[at];
    box.value = selected.text.text;
    open(false);
    if (!field || block.dispatch_action) scope.act(box, { type: one.type, action_id: one.action_id, block_id: block.block_id, selected_option: selected }, one.confirm);
  }

  const askSoon = () => {
    clearTimeout(timer);
    if (box.value.length < least) {
      open(false);
      status.textContent = `Type ${least} or more characters`;
    } else {
      timer = setTimeout(ask, PAUSE);
    }
  };
  box.addEventListener("input", () => {
    selected = null;
    askSoon();
  });
  box.addEventListener("focus", () => {
    if (!selected) askSoon();
  });
  box.addEventListener("blur", () => {
    clearTimeout(timer);
    open(false);
    if (!selected) box.value = "";
    status.textContent = "";
  });
  box.addEventListener("keydown", (event) => {
    if (list.hidden) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") point(active + (event.key === "ArrowDown" ? 1 : active < 0 ? 0 : -1));
    else if (event.key === "Enter" && active >= 0) choose(active);
    else if (event.key === "Escape") open(false);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  register(node, block.block_id, one.action_id, () => ({ type: one.type, selected_option: selected }));
  return node;
}
