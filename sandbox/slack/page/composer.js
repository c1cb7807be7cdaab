// The field people write in: Enter sends, Shift+Enter starts a line, "/" runs a command, lists complete what is begun.

import { explain, send } from "./api.js";
import { suggest } from "./completion.js";
import { clip, freshId, h, icon, iconButton } from "./dom.js";
import { menuButton } from "./menu.js";
import { plain } from "./text-view.js";
import { channelTitle, globalShortcuts, here, isAppDm } from "./workspace.js";

const drafts = new Map(); // what was typed and not sent, per person and place

/** `place`: {channel (object), thread_ts or null, label}; `onSent()` runs after a message was taken. */
export function composer(place, onSent) {
  const draft = `${here.me}/${place.channel.id}/${place.thread_ts ?? ""}`;
  const listId = freshId("completion");
  const field = h("textarea", {
    class: "composer-field", rows: "1", placeholder: place.label, "aria-label": place.label, "aria-autocomplete": "list", "aria-controls": listId, "aria-haspopup": "listbox", autocomplete: "off", spellcheck: "false",
    "data-key": `composer/${place.channel.id}/${place.thread_ts ?? ""}`,
  });
  const list = h("ul", { id: listId, class: "completion", role: "listbox", "aria-label": "Suggestions", hidden: true });
  const said = h("span", { class: "visually-hidden", role: "status" });
  const problem = h("div", { class: "composer-problem", role: "alert" });
  const wait = h("span", { class: "composer-wait muted", role: "status" });
  const everywhere = h("input", { type: "checkbox" });
  let offer = null;
  let active = -1;
  field.value = drafts.get(draft) ?? "";

  function facts() {
    const aliases = (here.app.aliases ?? []).map((one) => ({ name: one, help: "app" }));
    const members = here.users.map((one) => ({ name: one.name, help: one.is_bot ? "app" : (one.real_name ?? "") }));
    const apps = [...aliases.map((one) => one.name), ...here.users.filter((one) => one.id === here.app.bot_user_id).map((one) => one.name)];
    return { commands: here.app.commands, verbs: here.verbs, names: [...aliases, ...members], apps, direct: isAppDm(place.channel) };
  }

  function offerCompletion() {
    offer = field.selectionStart === field.selectionEnd ? suggest(field.value, field.selectionStart, facts()) : null;
    list.replaceChildren(...(offer?.items ?? []).map((item, i) =>
      h("li", { id: `${listId}-${i}`, role: "option", "aria-selected": "false", on: { pointerdown: (event) => { event.preventDefault(); accept(i); } } }, h("strong", {}, plain(clip(item.label, 80))), item.help ? h("span", { class: "muted" }, plain(` ${clip(item.help, 160)}`)) : null)));
    list.hidden = !offer;
    said.textContent = offer ? `${offer.items.length} suggestions, arrow keys to choose` : "";
    point(offer?.eager ? 0 : -1);
  }

  function point(at) {
    active = at;
    [...list.children].forEach((item, i) => item.setAttribute("aria-selected", String(i === at)));
    if (at < 0) return field.removeAttribute("aria-activedescendant");
    list.children[at].scrollIntoView({ block: "nearest" });
    return field.setAttribute("aria-activedescendant", `${listId}-${at}`);
  }

  function accept(at) {
    const { from, to, items } = offer;
    field.setRangeText(items[at].insert, from, to, "end");
    field.focus();
    changed();
  }

  function changed() {
    drafts.set(draft, field.value);
    grow(field);
    offerCompletion();
  }

  function closeList() {
    offer = null;
    list.hidden = true;
    point(-1);
  }

  async function submit() {
    const text = field.value.trim();
    if (!text || field.readOnly) return;
    closeList();
    problem.replaceChildren();
    field.readOnly = true;
    const slash = /^(\/\S+)\s*([\s\S]*)$/.exec(text);
    wait.textContent = slash ? `Waiting for the app to take ${slash[1]}…` : "Sending…";
    const common = { user: here.me, channel: place.channel.id };
    const reply = { thread_ts: place.thread_ts, broadcast: everywhere.checked };
    const answer = slash
      ? await send("command", { ...common, command: slash[1], text: slash[2], ...(place.thread_ts ? { thread_ts: place.thread_ts } : {}) })
      : await send("message", { ...common, text, ...(place.thread_ts ? reply : {}) });
    field.readOnly = false;
    wait.textContent = "";
    if (answer.ok) {
      if (answer.error) problem.append(failure("Your message is here, but the app was not told", answer.error));
      if (field.value.trim() === text) field.value = "";
      everywhere.checked = false;
      changed();
      onSent();
    } else {
      problem.append(failure(slash ? `${slash[1]} failed` : "The message was not sent", answer.error));
    }
  }

  function failure(what, error) {
    return h("p", {}, h("strong", { text: `${what}: ` }), h("code", { text: error ?? "unknown_error" }), explain(error) ? ` – ${explain(error)} ` : " ", h("button", { type: "button", class: "link-button", text: "Dismiss", on: { click: () => { problem.replaceChildren(); field.focus(); } } }));
  }

  field.addEventListener("input", changed);
  field.addEventListener("click", offerCompletion);
  field.addEventListener("blur", closeList);
  field.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    const open = offer && !list.hidden;
    if (open && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      const step = event.key === "ArrowDown" ? 1 : -1;
      point((active + step + offer.items.length + (active < 0 && step < 0 ? 1 : 0)) % offer.items.length);
    } else if (open && event.key === "Tab" && !event.shiftKey) {
      accept(Math.max(active, 0));
    } else if (open && event.key === "Escape") {
      event.stopPropagation();
      closeList();
    } else if (event.key === "Enter" && !event.shiftKey) {
      if (open && active >= 0) accept(active);
      else submit();
    } else {
      return;
    }
    event.preventDefault();
  });

  const node = h("div", { class: "composer" }, problem, list, said,
    h("form", { class: "composer-box", on: { submit: (event) => { event.preventDefault(); submit(); } } }, shortcuts(place), field, iconButton("send", "Send", () => {}, { type: "submit", class: "icon-button send" })),
    place.thread_ts ? h("label", { class: "inline-check" }, everywhere, `Also send to ${clip(channelTitle(place.channel), 80)}`) : null,
    h("p", { class: "composer-help muted" }, wait, h("span", { text: "Enter sends, Shift+Enter starts a line" })));
  requestAnimationFrame(() => grow(field));
  return {
    node,
    focus: () => field.focus(),
    fill(text) {
      field.value = text;
      field.focus();
      field.setSelectionRange(text.length, text.length);
      changed();
    },
  };
}

function grow(field) {
  field.rows = Math.min(8, Math.max(1, field.value.split("\n").length));
}

function shortcuts(place) {
  const all = globalShortcuts();
  if (!all.length) return null;
  return menuButton({
    label: "Shortcuts",
    content: icon("bolt"),
    items: all.map((one) => ({ label: plain(one.name), run: () => send("shortcut", { user: here.me, callback_id: one.callback_id, channel: place.channel.id }) })),
  });
}
