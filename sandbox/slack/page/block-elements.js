// Interactive elements of Block Kit. `field` is what the input block around an element says about it
// ({labelId, described, invalid, required}); elements outside an input block act at once when they change.

import { h, icon } from "./dom.js";
import { menuButton } from "./menu.js";
import { safeUrl } from "./text-urls.js";
import { plain, textObject } from "./text-view.js";
import { channelTitle, here, openChannels } from "./workspace.js";
import { externalSelect } from "./block-combobox.js";
import { picture } from "./block-picture.js";
import { register } from "./block-values.js";

export function element(one, block, scope, field = null) {
  const kind = KINDS[one.type];
  if (!kind || !Object.hasOwn(KINDS, one.type)) throw new TypeError(`element ${one.type}`);
  return kind(one, block, scope, field);
}

const KINDS = {
  button,
  channels_select: (...args) => select(...args, { field: "selected_channel", options: openChannels().map((each) => [each.id, channelTitle(each)]), initial: "initial_channel" }),
  checkboxes: (...args) => choices(...args),
  conversations_select: (...args) => select(...args, { field: "selected_conversation", options: openChannels().map((each) => [each.id, channelTitle(each)]), initial: "initial_conversation" }),
  datepicker: (...args) => typed(...args, { html: "date", field: "selected_date", initial: "initial_date" }),
  email_text_input: (...args) => typed(...args, { html: "email", field: "value", initial: "initial_value" }),
  external_select: (one, block, scope, field) => externalSelect(one, block, scope, field, common(one, block, scope, field)),
  feedback_buttons: feedbackButtons,
  icon_button: iconButton,
  image: (one) => picture(one, "accessory-image"),
  number_input: (...args) => typed(...args, { html: "text", field: "value", initial: "initial_value", mode: "decimal" }),
  overflow,
  plain_text_input: textInput,
  radio_buttons: (...args) => choices(...args),
  static_select: staticSelect,
  timepicker: (...args) => typed(...args, { html: "time", field: "selected_time", initial: "initial_time" }),
  url_text_input: (...args) => typed(...args, { html: "url", field: "value", initial: "initial_value" }),
  users_select: (...args) => select(...args, { field: "selected_user", options: here.users.map((each) => [each.id, each.name]), initial: "initial_user" }),
};

/** Attributes every control has: its key over re-rendering, its name, its error. */
function common(one, block, scope, field) {
  return {
    "data-key": `${scope.key}/${block.block_id}/${one.action_id}`,
    "aria-labelledby": field?.labelId,
    "aria-label": field ? null : (one.accessibility_label ?? one.placeholder?.text ?? one.action_id),
    "aria-describedby": field?.described,
    "aria-invalid": field?.invalid ? "true" : null,
    "aria-required": field?.required && one.type !== "checkboxes" ? "true" : null,
  };
}

function kept(one, block, scope) {
  return scope.values[block.block_id]?.[one.action_id];
}

function changed(node, one, block, scope, field, more) {
  if (!field || block.dispatch_action) scope.act(node, { type: one.type, action_id: one.action_id, block_id: block.block_id, ...more }, one.confirm);
}

function button(one, block, scope) {
  const style = one.style === "primary" || one.style === "danger" ? ` ${one.style}` : "";
  const press = (event) => scope.act(event.currentTarget, { type: "button", action_id: one.action_id, block_id: block.block_id, value: one.value, text: one.text }, one.confirm);
  const props = { class: `button${style}`, "aria-label": one.accessibility_label, "data-key": `${scope.key}/${block.block_id}/${one.action_id}`, on: { click: press } };
  const url = one.url && safeUrl(one.url);
  return url
    ? h("a", { ...props, href: url, target: "_blank", rel: "noopener noreferrer" }, textObject(one.text), " ↗")
    : h("button", { ...props, type: "button" }, textObject(one.text));
}

function iconButton(one, block, scope) {
  const press = (event) => scope.act(event.currentTarget, { type: "icon_button", action_id: one.action_id, block_id: block.block_id, value: one.value }, one.confirm);
  return h("button", { type: "button", class: "button", "aria-label": one.accessibility_label, on: { click: press } }, textObject(one.text));
}

function feedbackButtons(one, block, scope) {
  const side = (choice, sign) => h("button", {
    type: "button",
    class: "button",
    "aria-label": choice.accessibility_label,
    on: { click: (event) => scope.act(event.currentTarget, { type: "feedback_buttons", action_id: one.action_id, block_id: block.block_id, value: choice.value }) },
  }, sign, " ", textObject(choice.text));
  return h("span", { class: "feedback" }, side(one.positive_button, "👍"), side(one.negative_button, "👎"));
}

function overflow(one, block, scope) {
  return menuButton({
    label: one.accessibility_label ?? "More",
    key: `${scope.key}/${block.block_id}/${one.action_id}`,
    content: icon("more"),
    items: one.options.map((option) => ({
      label: textObject(option.text),
      run: (node) => {
        const url = option.url && safeUrl(option.url);
        if (url) window.open(url, "_blank", "noopener,noreferrer");
        scope.act(node, { type: "overflow", action_id: one.action_id, block_id: block.block_id, selected_option: option }, one.confirm);
      },
    })),
  });
}

function textInput(one, block, scope, field) {
  const before = kept(one, block, scope);
  const on = (one.dispatch_action_config?.trigger_actions_on ?? ["on_enter_pressed"]);
  const box = h(one.multiline ? "textarea" : "input", {
    class: "text-input",
    type: one.multiline ? null : "text",
    rows: one.multiline ? 4 : null,
    placeholder: one.placeholder?.text,
    maxlength: one.max_length ?? 3000,
    autocomplete: "off",
    "data-autofocus": one.focus_on_load ? "true" : null,
    ...common(one, block, scope, field),
  });
  box.value = before ? (before.value ?? "") : (one.initial_value ?? "");
  const tell = () => changed(box, one, block, scope, field, { value: box.value });
  box.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !one.multiline && block.dispatch_action && on.includes("on_enter_pressed")) {
      event.preventDefault();
      tell();
    }
  });
  if (on.includes("on_character_entered")) box.addEventListener("input", tell);
  return register(box, block.block_id, one.action_id, () => ({ type: one.type, value: box.value || null }));
}

function typed(one, block, scope, field, { html, field: name, initial, mode }) {
  const before = kept(one, block, scope);
  const box = h("input", { class: "text-input", type: html, inputmode: mode, placeholder: one.placeholder?.text, ...common(one, block, scope, field) });
  box.value = (before ? before[name] : one[initial]) ?? "";
  box.addEventListener("change", () => changed(box, one, block, scope, field, { [name]: box.value || null }));
  return register(box, block.block_id, one.action_id, () => ({ type: one.type, [name]: box.value || null }));
}

function select(one, block, scope, field, { field: name, options, initial }) {
  const before = kept(one, block, scope);
  const box = h("select", { class: "select", ...common(one, block, scope, field) }, h("option", { value: "", text: one.placeholder?.text ?? "Choose…" }), options.map(([value, label]) => h("option", { value }, plain(label))));
  box.value = (before ? before[name] : one[initial]) ?? "";
  box.addEventListener("change", () => changed(box, one, block, scope, field, { [name]: box.value || null }));
  return register(box, block.block_id, one.action_id, () => ({ type: one.type, [name]: box.value || null }));
}

function staticSelect(one, block, scope, field) {
  const groups = one.option_groups ?? [{ options: one.options }];
  const all = groups.flatMap((group) => group.options);
  const before = kept(one, block, scope);
  const chosen = before ? before.selected_option : one.initial_option;
  const choice = (option) => h("option", { value: all.indexOf(option), selected: option.value === chosen?.value, text: option.text.text + (option.description ? ` – ${option.description.text}` : "") });
  const box = h("select", { class: "select", ...common(one, block, scope, field) },
    h("option", { value: "", text: one.placeholder?.text ?? "Choose…" }),
    groups.map((group) => (group.label ? h("optgroup", { label: group.label.text }, group.options.map(choice)) : group.options.map(choice))));
  const selected = () => (box.value === "" ? null : all[Number(box.value)]);
  box.addEventListener("change", () => changed(box, one, block, scope, field, { selected_option: selected() }));
  return register(box, block.block_id, one.action_id, () => ({ type: one.type, selected_option: selected() }));
}

/** Radio buttons and checkboxes. */
function choices(one, block, scope, field) {
  const single = one.type === "radio_buttons";
  const before = kept(one, block, scope);
  const initial = single ? [before ? before.selected_option : one.initial_option] : (before ? before.selected_options : one.initial_options);
  const values = new Set((initial ?? []).filter(Boolean).map((option) => option.value));
  const { "data-key": key, "aria-required": required, ...aria } = common(one, block, scope, field);
  const inputs = one.options.map((option, i) => {
    const box = h("input", { type: single ? "radio" : "checkbox", name: key, "data-key": `${key}/${i}` });
    box.checked = values.has(option.value);
    return box;
  });
  const group = h("div", { class: "choices", role: single ? "radiogroup" : "group", ...aria, "aria-invalid": single ? aria["aria-invalid"] : null, "aria-required": single ? required : null },
    one.options.map((option, i) => h("label", { class: "choice" }, inputs[i], h("span", {}, textObject(option.text), option.description ? h("span", { class: "hint" }, textObject(option.description)) : null))));
  const picked = () => one.options.filter((_, i) => inputs[i].checked);
  const state = () => (single ? { selected_option: picked()[0] ?? null } : { selected_options: picked() });
  group.addEventListener("change", () => changed(group, one, block, scope, field, state()));
  return register(group, block.block_id, one.action_id, () => ({ type: one.type, ...state() }));
}
