// Builds the document from data. Nothing here or elsewhere hands text to the HTML parser.

const SVG = "http://www.w3.org/2000/svg";
const FORBIDDEN = /^(on|style$|srcdoc$|innerhtml$|outerhtml$)/i;

const PATHS = {
  menu: "M3 5h14M3 10h14M3 15h14",
  close: "M5 5l10 10M15 5L5 15",
  reply: "M8 5L3 10l5 5M3 10h8a6 6 0 0 1 6 6",
  smile: "M10 2.5a7.5 7.5 0 1 0 0 15 7.5 7.5 0 0 0 0-15M7 8h.01M13 8h.01M6.8 12a4 4 0 0 0 6.4 0",
  more: "M5 10h.01M10 10h.01M15 10h.01",
  eye: "M2 10s3-5.5 8-5.5 8 5.5 8 5.5-3 5.5-8 5.5S2 10 2 10M10 8a2 2 0 1 0 0 4 2 2 0 0 0 0-4",
  bolt: "M11 2L4 11h5l-1 7 7-9h-5z",
  send: "M3 10l14-7-5 14-3-6z",
  journal: "M4 3h12v14H4zM7 7h6M7 10h6M7 13h4",
};

/** An element. `props`: `on` holds listeners, `text` the text content, everything else is an attribute (true = bare, false/null = left out). */
export function h(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

export function svg(tag, props = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (name === "on") {
      for (const [type, listener] of Object.entries(value)) node.addEventListener(type, listener);
    } else if (name === "text") {
      node.textContent = value;
    } else if (FORBIDDEN.test(name)) {
      throw new Error(`attribute ${name} is not allowed`);
    } else if (value !== false && value !== null && value !== undefined) {
      node.setAttribute(name, value === true ? "" : String(value));
    }
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export function icon(name) {
  return svg("svg", { class: "icon", viewBox: "0 0 20 20", "aria-hidden": "true", focusable: "false" }, svg("path", { d: PATHS[name], class: `icon-${name}` }));
}

export function iconButton(name, label, click, props = {}) {
  return h("button", { type: "button", class: "icon-button", "aria-label": label, title: label, on: { click }, ...props }, icon(name));
}

export function byId(id) {
  return document.getElementById(id);
}

/** `text` cut to `limit` characters, never inside a surrogate pair. */
export function clip(text, limit) {
  const all = String(text ?? "");
  if (all.length <= limit) return all;
  const end = /[\uD800-\uDBFF]/.test(all[limit - 1]) ? limit - 1 : limit;
  return `${all.slice(0, end)}…`;
}

/** Gives `parent` these children in this order; those that it has stay where they are, the others go. */
export function order(parent, nodes) {
  const wanted = new Set(nodes);
  for (const one of [...parent.children]) if (!wanted.has(one)) one.remove();
  nodes.forEach((node, at) => {
    if (parent.children[at] !== node) parent.insertBefore(node, parent.children[at] ?? null);
  });
}

let counter = 0;

/** An id that no other element of this page has. */
export function freshId(prefix) {
  counter += 1;
  return `${prefix}-${counter}`;
}

/** Runs `update`, then gives focus and caret back to the element with the same data-key if the update replaced it. */
export function keepFocus(update) {
  const before = document.activeElement;
  const key = before?.dataset?.key;
  const caret = key && "selectionStart" in before ? [before.selectionStart, before.selectionEnd] : null;
  update();
  if (!key || before.isConnected) return;
  const after = document.querySelector(`[data-key="${CSS.escape(key)}"]`);
  if (!after) return;
  after.focus({ preventScroll: true });
  if (caret && caret[0] !== null) after.setSelectionRange?.(...caret);
}

/** One run of `work` at a time; calls during a run lead to one more run after it. */
export function coalesced(work) {
  let running = false;
  let again = false;
  return async function run() {
    if (running) {
      again = true;
      return;
    }
    running = true;
    again = false;
    try {
      await work();
    } finally {
      running = false;
      if (again) await run();
    }
  };
}
