// The table and data_table blocks.

import { freshId, h } from "./dom.js";
import { plain, textObject } from "./text-view.js";
import { element } from "./block-elements.js";
import { richText } from "./block-richtext.js";

const ALIGN = new Set(["left", "center", "right"]);

function cellText(cell) {
  if (cell.type === "raw_number") return String(cell.text ?? cell.value);
  if (cell.type === "raw_text") return cell.text;
  return JSON.stringify(cell.elements ?? cell).toLowerCase();
}

function cellView(cell, block, scope) {
  if (cell.type === "rich_text") return richText(cell);
  if (cell.type === "raw_text" || cell.type === "raw_number") return plain(cellText(cell));
  if (cell.type === "action" && cell.element) return element(cell.element, block, scope);
  return textObject(cell.text ?? cell);
}

/** The first row is the header, as Slack shows it. */
export function table(block, scope) {
  const [head = [], ...body] = block.rows;
  const classes = (column) => {
    const setting = block.column_settings?.[column] ?? {};
    return `align-${ALIGN.has(setting.align) ? setting.align : "left"}${setting.is_wrapped ? " wrapped" : ""}`;
  };
  const cells = (row, tag, props) => row.map((cell, column) => h(tag, { class: classes(column), ...props }, cellView(cell, block, scope)));
  return h("div", { class: "table-scroll", tabindex: "0", role: "group", "aria-label": `Table with ${body.length} rows` },
    h("table", {}, h("thead", {}, h("tr", {}, cells(head, "th", { scope: "col" }))), h("tbody", {}, body.map((row) => h("tr", {}, cells(row, "td", {}))))));
}

/** A table with pages, a filter, and sorting by its column headers. */
export function dataTable(block, scope) {
  const [head, ...all] = block.rows;
  const size = Math.max(1, block.page_size ?? 5);
  const state = { page: 0, column: -1, down: false, filter: "" };
  const captionId = freshId("caption");
  const body = h("tbody");
  const status = h("span", { role: "status" });
  const turn = (by, label) => h("button", { type: "button", class: "button small", text: label, on: { click: () => draw({ page: state.page + by }) } });
  const [back, forth] = [turn(-1, "Previous"), turn(1, "Next")];
  const headers = head.map((cell, column) =>
    h("th", { scope: "col" }, h("button", { type: "button", class: "sort-button", on: { click: () => draw({ column, down: state.column === column && !state.down, page: 0 }) } }, cellView(cell, block, scope))));

  function draw(change) {
    Object.assign(state, change);
    const wanted = state.filter.toLowerCase();
    const rows = all.filter((row) => row.some((cell) => cellText(cell).toLowerCase().includes(wanted)));
    if (state.column >= 0) rows.sort((a, b) => compare(a[state.column], b[state.column]) * (state.down ? -1 : 1));
    const from = state.page * size;
    body.replaceChildren(...rows.slice(from, from + size).map((row) =>
      h("tr", {}, row.map((cell, column) => (column === (block.row_header_column_index ?? 0) ? h("th", { scope: "row" }, cellView(cell, block, scope)) : h("td", {}, cellView(cell, block, scope)))))));
    headers.forEach((one, column) => one.setAttribute("aria-sort", column !== state.column ? "none" : state.down ? "descending" : "ascending"));
    back.disabled = state.page === 0;
    forth.disabled = from + size >= rows.length;
    status.textContent = rows.length ? `${from + 1}–${Math.min(from + size, rows.length)} of ${rows.length}` : "No rows";
  }

  draw({});
  const filter = h("input", { type: "search", class: "text-input small", placeholder: "Filter", "aria-label": "Filter the rows", on: { input: (event) => draw({ filter: event.target.value, page: 0 }) } });
  return h("div", { class: "data-table" },
    h("div", { class: "table-tools" }, h("strong", { id: captionId }, textObject(block.caption)), filter),
    h("div", { class: "table-scroll", tabindex: "0", role: "group", "aria-labelledby": captionId }, h("table", { "aria-labelledby": captionId }, h("thead", {}, h("tr", {}, headers)), body)),
    h("div", { class: "table-tools" }, back, status, forth));
}

function compare(a, b) {
  if (a?.type === "raw_number" && b?.type === "raw_number") return a.value - b.value;
  return cellText(a ?? { type: "raw_text", text: "" }).localeCompare(cellText(b ?? { type: "raw_text", text: "" }), "en", { numeric: true });
}
