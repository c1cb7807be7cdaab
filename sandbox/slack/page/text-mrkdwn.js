// Slack's mrkdwn to a tree of plain objects. Pure: no document, no workspace. Linear in the length of the text.
//
// Nodes: {t:"text",s} {t:"br"} {t:"b"|"i"|"s"|"code"|"pre"|"quote",c:[nodes]} {t:"link",url,s} {t:"emoji",name,s}
//        {t:"user"|"channel"|"group",id,s} {t:"broadcast",s}. Every `s` is text as a person reads it, with nothing left to decode.

import { slackDate } from "./text-date.js";
import { EMOJI } from "./text-emoji.js";
import { safeUrl } from "./text-urls.js";

const ENTITY = /<([^<>\s][^<>\n]*)>/y;
const BARE_URL = /https?:\/\/[^\s<>|`"]+/y;
const EMOJI_NAME = /:([a-z0-9_+-]{1,40}):/y;
const STYLES = { "*": "b", _: "i", "~": "s" };
const WORD = /[\p{L}\p{N}]/u;
const QUOTE = /^(?:&gt;|>) ?/;
const LONG_QUOTE = /^(?:&gt;|>){3} ?/;

/** `options.verbatim`: bare URLs stay text; `options.emoji === false`: emoji names stay text. */
export function parseMrkdwn(source, options = {}) {
  const nodes = [];
  let rest = String(source ?? "");
  for (;;) {
    const open = rest.indexOf("```");
    const close = open < 0 ? -1 : rest.indexOf("```", open + 3);
    if (close < 0 || close === open + 3) break;
    nodes.push(...parseLines(rest.slice(0, open).replace(/\n$/, ""), options));
    nodes.push({ t: "pre", c: parseEntities(rest.slice(open + 3, close).replace(/^\n|\n$/g, "")) });
    rest = rest.slice(close + 3).replace(/^\n/, "");
  }
  return [...nodes, ...parseLines(rest, options)];
}

/** The three escapes of Slack, decoded once: "&amp;lt;" is the text "&lt;". */
export function unescape(text) {
  return text.replace(/&(amp|lt|gt);/g, (_, name) => ({ amp: "&", lt: "<", gt: ">" })[name]);
}

function parseLines(text, options) {
  if (!text) return [];
  const nodes = [];
  let quote = null;
  let quotesAll = false;
  for (const line of text.split("\n")) {
    if (!quotesAll && LONG_QUOTE.test(line)) quotesAll = true;
    const quoted = quotesAll || QUOTE.test(line);
    if (quoted && quote) {
      quote.c.push({ t: "br" });
    } else if (quoted) {
      quote = { t: "quote", c: [] };
      nodes.push(quote);
    } else {
      if (nodes.length && !quote) nodes.push({ t: "br" });
      quote = null;
    }
    const content = quoted ? line.replace(LONG_QUOTE.test(line) ? LONG_QUOTE : QUOTE, "") : line;
    (quote?.c ?? nodes).push(...parseInline(content, options, ""));
  }
  return nodes;
}

/** One line. `active` holds the style marks it is already inside of. */
function parseInline(line, options, active) {
  const nodes = [];
  const dead = new Set(); // marks for which no closing one follows: looked for once, which keeps this linear
  let text = "";
  let i = 0;
  const flush = () => {
    if (text) nodes.push({ t: "text", s: unescape(text) });
    text = "";
  };
  const take = (node, end) => {
    flush();
    nodes.push(node);
    i = end;
  };
  while (i < line.length) {
    const mark = line[i];
    if (mark === "<") {
      const found = match(ENTITY, line, i);
      if (found) {
        take(entity(found[1]), i + found[0].length);
        continue;
      }
    } else if (mark === "`" && !dead.has(mark)) {
      const close = line.indexOf("`", i + 1);
      if (close > i + 1) {
        take({ t: "code", c: parseEntities(line.slice(i + 1, close)) }, close + 1);
        continue;
      }
      if (close < 0) dead.add(mark);
    } else if (STYLES[mark] && !active.includes(mark) && !dead.has(mark) && opens(line, i)) {
      const close = closing(line, i, mark);
      if (close > 0) {
        take({ t: STYLES[mark], c: parseInline(line.slice(i + 1, close), options, active + mark) }, close + 1);
        continue;
      }
      dead.add(mark);
    } else if (mark === ":" && options.emoji !== false) {
      const found = match(EMOJI_NAME, line, i);
      if (found && EMOJI.has(found[1])) {
        take({ t: "emoji", name: found[1], s: EMOJI.get(found[1]) }, i + found[0].length);
        continue;
      }
    } else if (mark === "h" && !options.verbatim && !WORD.test(line[i - 1] ?? "")) {
      const found = match(BARE_URL, line, i)?.[0].replace(/[.,;:!?)\]}'*_~]+$/, "");
      const url = found && safeUrl(unescape(found));
      if (url) {
        take({ t: "link", url, s: unescape(found) }, i + found.length);
        continue;
      }
    }
    text += mark;
    i += 1;
  }
  flush();
  return nodes;
}

function match(sticky, line, at) {
  sticky.lastIndex = at;
  return sticky.exec(line);
}

function opens(line, i) {
  const next = line[i + 1];
  return !WORD.test(line[i - 1] ?? "") && next !== undefined && next !== line[i] && !/\s/.test(next);
}

/** Where the style opened at `i` ends, or -1. Marks inside <entities> are not looked at. */
function closing(line, i, mark) {
  for (let at = i + 1; at < line.length; at += 1) {
    if (line[at] === "<") {
      const found = match(ENTITY, line, at);
      if (found) at += found[0].length - 1;
    } else if (line[at] === mark && at > i + 1 && !/\s/.test(line[at - 1]) && !WORD.test(line[at + 1] ?? "")) {
      return at;
    }
  }
  return -1;
}

/** Text in which only <entities> mean something: inside code they still do, which is why a bot must escape there too. */
export function parseEntities(text) {
  const nodes = [];
  let from = 0;
  for (const found of text.matchAll(/<([^<>\s][^<>\n]*)>/g)) {
    if (found.index > from) nodes.push({ t: "text", s: unescape(text.slice(from, found.index)) });
    nodes.push(entity(found[1]));
    from = found.index + found[0].length;
  }
  if (from < text.length) nodes.push({ t: "text", s: unescape(text.slice(from)) });
  return nodes;
}

function entity(body) {
  const bar = body.indexOf("|");
  const target = bar < 0 ? body : body.slice(0, bar);
  const label = bar < 0 ? "" : unescape(body.slice(bar + 1));
  const id = target.slice(1);
  if (/^@[UWB]/.test(target)) return { t: "user", id, s: label };
  if (/^#C/.test(target)) return { t: "channel", id, s: label };
  if (/^!(channel|here|everyone)$/.test(target)) return { t: "broadcast", s: `@${id}` };
  if (target.startsWith("!subteam^")) return { t: "group", id: target.slice(9), s: label };
  if (target.startsWith("!date^")) {
    const [, seconds, format] = target.split("^");
    return { t: "text", s: slackDate(Number(seconds || NaN), unescape(format ?? "")) ?? label };
  }
  const url = safeUrl(unescape(target));
  return url ? { t: "link", url, s: label || unescape(target) } : { t: "text", s: unescape(`<${body}>`) };
}
