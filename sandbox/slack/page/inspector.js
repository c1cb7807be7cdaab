// The inspector: every request between the app and the sandbox, with its raw JSON.

import { read } from "./api.js";
import { byId, clip, coalesced, h, iconButton } from "./dom.js";
import { jsonView } from "./json.js";
import { plain } from "./text-view.js";

const KEPT = 500; // entries in the document; older ones are dropped

/** Fills #inspector and keeps it current while it is open. `toggle` is the button that opens it. */
export function inspector(toggle) {
  const pane = byId("inspector");
  const list = h("div", { class: "journal", tabindex: "0", role: "region", "aria-label": "Journal entries" });
  const filter = h("input", { type: "search", class: "text-input small", placeholder: "Filter by method or text", "aria-label": "Filter the journal", on: { input: sift } });
  const failing = h("input", { type: "checkbox", on: { change: sift } });
  const count = h("span", { class: "muted", role: "status" });
  const shown = []; // {entry, node, words}
  let cursor = 0;

  pane.replaceChildren(
    h("div", { class: "pane-head" },
      h("h2", { id: "inspector-title", text: "Inspector" }),
      filter,
      h("label", { class: "inline-check" }, failing, "Only failures and violations"),
      count,
      h("button", { type: "button", class: "button small", text: "Clear", on: { click: clear } }),
      iconButton("close", "Close the inspector", close)),
    list);

  const refresh = coalesced(async () => {
    if (pane.hidden) return;
    for (;;) {
      const answer = await read("journal", { after: cursor, limit: 200 });
      if (!answer.ok) return;
      cursor = Math.max(cursor, answer.cursor ?? 0, ...answer.entries.map((one) => one.id));
      add(answer.entries);
      if (answer.entries.length < 200) return;
    }
  });

  function add(entries) {
    const atEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 60;
    for (const entry of entries) {
      const one = { entry, node: row(entry), words: `${entry.kind} ${entry.title} ${entry.error ?? ""} ${JSON.stringify(entry.request ?? "").slice(0, 5000)}`.toLowerCase() };
      shown.push(one);
      list.append(one.node);
    }
    while (shown.length > KEPT) shown.shift().node.remove();
    sift();
    if (atEnd) list.scrollTop = list.scrollHeight;
  }

  function sift() {
    const wanted = filter.value.trim().toLowerCase();
    let visible = 0;
    for (const { entry, node, words } of shown) {
      node.hidden = !words.includes(wanted) || (failing.checked && entry.ok && !entry.violations?.length);
      if (!node.hidden) visible += 1;
    }
    count.textContent = `${visible} of ${shown.length}`;
  }

  function clear() {
    shown.length = 0;
    list.replaceChildren();
    sift();
  }

  function open() {
    pane.hidden = false;
    toggle.setAttribute("aria-expanded", "true");
    filter.focus();
    return refresh();
  }

  function close() {
    pane.hidden = true;
    toggle.setAttribute("aria-expanded", "false");
    toggle.focus();
  }

  pane.addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
  });
  toggle.addEventListener("click", () => (pane.hidden ? open() : close()));
  return { refresh };
}

function row(entry) {
  const bad = !entry.ok;
  const violations = entry.violations ?? [];
  const body = h("div", { class: "journal-body" });
  const details = h("details", { class: `journal-entry${bad ? " bad" : ""}` },
    h("summary", {},
      h("time", { class: "muted", text: time(entry.at) }),
      h("span", { class: `kind kind-${/^[a-z_]+$/.test(entry.kind) ? entry.kind : "api"}` }, plain(entry.kind.replace("_", " "))),
      h("span", { class: "journal-title" }, plain(clip(entry.title, 160))),
      h("span", { class: bad ? "outcome bad" : "outcome" }, bad ? plain(clip(entry.error || `failed ${entry.status ?? ""}`, 80)) : "ok"),
      violations.length ? h("span", { class: "outcome warn", text: `${violations.length} violation${violations.length === 1 ? "" : "s"}` }) : null,
      h("span", { class: "muted latency", text: !entry.latency_ms ? "" : `${Number(entry.latency_ms).toFixed(1)} ms` })),
    body);
  details.addEventListener("toggle", () => {
    if (details.open && !body.childElementCount) body.append(...detail(entry, violations));
  });
  return details;
}

function time(at) {
  const value = typeof at === "number" ? new Date(at * 1000) : new Date(at);
  return Number.isNaN(value.valueOf()) ? String(at) : value.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });
}

function detail(entry, violations) {
  const part = (title, value) => h("div", { class: "journal-part" }, h("h3", { text: title }), jsonView(value, `${title} of ${clip(entry.title, 80)}`));
  return [
    h("p", { class: "muted", text: `entry ${entry.id}, status ${entry.status ?? "none"}${entry.error ? `, error ${entry.error}` : ""}` }),
    violations.length ? part("Violations", violations) : null,
    h("div", { class: "journal-pair" }, part("Request", entry.request ?? null), (entry.response ?? null) === null ? null : part("Response", entry.response)),
  ].filter(Boolean);
}
