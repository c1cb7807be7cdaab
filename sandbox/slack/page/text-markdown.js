// A safe, basic subset of Markdown (the `markdown` block) to the nodes of text-mrkdwn.js and a few more:
// {t:"h",level,c} {t:"p",c} {t:"list",ordered,items:[c]} {t:"hr"} {t:"grid",rows:[[c]]}. Pure.

import { parseEntities, unescape } from "./text-mrkdwn.js";
import { safeUrl } from "./text-urls.js";

const HEADING = /^(#{1,6}) (.*)$/;
const RULE = /^ {0,3}(?:-{3,}|\*{3,}|_{3,})\s*$/;
const BULLET = /^\s{0,6}[-*+] (.*)$/;
const NUMBER = /^\s{0,6}\d{1,9}[.)] (.*)$/;
const TABLE_RULE = /^\|?\s*:?-{2,}:?\s*(?:\|\s*:?-{2,}:?\s*)*\|?\s*$/;
// Each alternative is bounded by its own delimiter and by the line; what matches none stays text.
const INLINE = /`([^`\n]+)`|\[([^[\]\n]{1,500})\]\(([^()\s]{1,3000})\)|\*\*([^*\n]{1,2000})\*\*|~~([^~\n]{1,2000})~~|\*([^*\s][^*\n]{0,2000})\*|(?<!\w)_([^_\s][^_\n]{0,2000})_(?!\w)/g;

export function parseMarkdown(source) {
  const lines = String(source ?? "").split("\n");
  const nodes = [];
  let i = 0;
  while (i < lines.length) {
    const [node, next] = blockAt(lines, i);
    if (node) nodes.push(node);
    i = next;
  }
  return nodes;
}

function blockAt(lines, i) {
  const line = lines[i];
  if (!line.trim()) return [null, i + 1];
  if (line.startsWith("```")) return fence(lines, i);
  const heading = HEADING.exec(line);
  if (heading) return [{ t: "h", level: heading[1].length, c: inline(heading[2]) }, i + 1];
  if (RULE.test(line)) return [{ t: "hr" }, i + 1];
  if (line.startsWith(">")) return run(lines, i, /^> ?(.*)$/, (found) => ({ t: "quote", c: joined(found) }));
  if (BULLET.test(line)) return run(lines, i, BULLET, (found) => ({ t: "list", ordered: false, items: found.map(inline) }));
  if (NUMBER.test(line)) return run(lines, i, NUMBER, (found) => ({ t: "list", ordered: true, items: found.map(inline) }));
  if (line.includes("|") && TABLE_RULE.test(lines[i + 1] ?? "")) return grid(lines, i);
  const end = lines.findIndex((one, at) => at > i && (!one.trim() || HEADING.test(one) || one.startsWith("```") || BULLET.test(one)));
  const stop = end < 0 ? lines.length : end;
  return [{ t: "p", c: joined(lines.slice(i, stop)) }, stop];
}

function fence(lines, i) {
  const end = lines.findIndex((one, at) => at > i && one.startsWith("```"));
  const stop = end < 0 ? lines.length : end;
  return [{ t: "pre", c: [{ t: "text", s: lines.slice(i + 1, stop).join("\n") }] }, stop + 1];
}

function run(lines, i, pattern, make) {
  const found = [];
  let at = i;
  for (; at < lines.length && pattern.test(lines[at]); at += 1) found.push(pattern.exec(lines[at])[1]);
  return [make(found), at];
}

function grid(lines, i) {
  const cells = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((one) => inline(one.trim()));
  const rows = [cells(lines[i])];
  let at = i + 2;
  for (; at < lines.length && lines[at].includes("|"); at += 1) rows.push(cells(lines[at]));
  return [{ t: "grid", rows }, at];
}

function joined(lines) {
  return lines.flatMap((line, at) => (at ? [{ t: "br" }, ...inline(line)] : inline(line)));
}

function inline(line) {
  const nodes = [];
  let from = 0;
  for (const found of line.matchAll(INLINE)) {
    nodes.push(...parseEntities(line.slice(from, found.index)));
    nodes.push(span(found));
    from = found.index + found[0].length;
  }
  return [...nodes, ...parseEntities(line.slice(from))];
}

function span([whole, code, label, target, bold, strike, star, under]) {
  if (code !== undefined) return { t: "code", c: [{ t: "text", s: code }] };
  if (label !== undefined) {
    const url = safeUrl(unescape(target));
    return url ? { t: "link", url, s: label } : { t: "text", s: whole };
  }
  if (bold !== undefined) return { t: "b", c: parseEntities(bold) };
  if (strike !== undefined) return { t: "s", c: parseEntities(strike) };
  return { t: "i", c: parseEntities(star ?? under) };
}
