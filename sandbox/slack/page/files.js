// Files of a message: pictures in place, CSV as a table, text as a preview, and a link to download each.

import { fileText, fileUrl } from "./api.js";
import { clip, h } from "./dom.js";
import { folded, name, plain } from "./text-view.js";

const PICTURES = new Set(["image/png", "image/jpeg", "image/gif"]);
const PREVIEW_CHARS = 200_000;
const PREVIEW_ROWS = 50;

export function fileView(file) {
  return h("figure", { class: "file" }, preview(file), h("figcaption", {}, caption(file)));
}

function caption(file) {
  const title = name(file.title || file.name, { class: "name file-name" });
  const url = fileUrl(file);
  const link = url ? h("a", { href: url, download: clip(file.name, 200), class: "button small", "aria-label": `Download ${clip(file.name, 80)}`, text: "Download" }) : null;
  return [title, h("span", { class: "muted", text: ` ${file.filetype || file.mimetype || "file"}, ${bytes(file.size ?? 0)} ` }), link];
}

function bytes(size) {
  if (size < 1024) return `${size} B`;
  return size < 1024 * 1024 ? `${(size / 1024).toFixed(1)} KiB` : `${(size / 1024 / 1024).toFixed(1)} MiB`;
}

function preview(file) {
  const url = fileUrl(file);
  if (!url) return h("p", { class: "muted", text: "No content yet" });
  const type = (file.mimetype ?? "").split(";")[0];
  if (PICTURES.has(type)) return h("a", { href: url, target: "_blank", rel: "noopener noreferrer" }, h("img", { class: "file-image", src: url, alt: file.alt_txt || file.title || file.name }));
  if (type === "text/csv" || file.filetype === "csv") return fetched(url, file, csvTable);
  if (type.startsWith("text/") || type === "application/json" || type === "application/yaml") return fetched(url, file, textPreview);
  return h("p", { class: "muted", text: "No preview for this kind of file" });
}

function fetched(url, file, view) {
  const box = h("div", { class: "file-preview" }, h("p", { class: "muted", text: "Loading the preview…" }));
  fileText(url, PREVIEW_CHARS).then(
    (text) => box.replaceChildren(view(text, file)),
    (error) => box.replaceChildren(h("p", { class: "muted", text: `No preview: ${error.message}` })),
  );
  return box;
}

function textPreview(text, file) {
  return folded(text, (part) => h("pre", { tabindex: "0", role: "group", "aria-label": `Content of ${clip(file.name, 80)}` }, plain(part)));
}

function csvTable(text, file) {
  const rows = parseCsv(text);
  const [head = [], ...body] = rows;
  const cells = (row, tag, props = {}) => row.map((cell) => h(tag, props, plain(clip(cell, 500))));
  return h("div", {},
    h("div", { class: "table-scroll", tabindex: "0", role: "group", "aria-label": `Table in ${clip(file.name, 80)}` },
      h("table", {}, h("thead", {}, h("tr", {}, cells(head, "th", { scope: "col" }))), h("tbody", {}, body.slice(0, PREVIEW_ROWS).map((row) => h("tr", {}, cells(row, "td")))))),
    body.length > PREVIEW_ROWS ? h("p", { class: "muted", text: `The first ${PREVIEW_ROWS} of ${body.length} rows` }) : null);
}

/** Rows of cells; quotes as in RFC 4180. */
export function parseCsv(text) {
  const rows = [];
  let row = [];
  const cell = /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|$)/y;
  let at = 0;
  while (at < text.length) {
    cell.lastIndex = at;
    const found = cell.exec(text);
    if (!found) return [...rows, [...row, text.slice(at)]];
    row.push(found[1] === undefined ? found[2] : found[1].replaceAll('""', '"'));
    at = cell.lastIndex;
    if (found[3] !== ",") {
      rows.push(row);
      row = [];
    } else if (at === text.length) {
      row.push("");
    }
  }
  return row.length ? [...rows, row] : rows;
}
