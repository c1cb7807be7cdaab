// One message.

import { explain, send } from "./api.js";
import { attachmentView } from "./attachment.js";
import { renderBlocks } from "./blocks.js";
import { makeScope } from "./block-scope.js";
import { showDialog } from "./dialog.js";
import { clip, h, icon, iconButton } from "./dom.js";
import { editMessage } from "./edit.js";
import { fileView } from "./files.js";
import { jsonView } from "./json.js";
import { menuButton } from "./menu.js";
import { EMOJI, REACTIONS } from "./text-emoji.js";
import { emoji, mrkdwn, name } from "./text-view.js";
import { here, messageShortcuts, userName } from "./workspace.js";

const AVATARS = 8; // classes a0..a7 of the style sheet

/** `place`: "list" or "thread"; `values`: inputs typed before a re-rendering; `news`: its thread has something unseen; `onThread(ts)` opens it. */
export function messageView(message, { place, values, news, onThread }) {
  const author = authorOf(message);
  const box = h("div", { class: `message${message.ephemeral ? " ephemeral" : ""}`, "data-state-root": "", "data-ts": message.ts, role: "article", "aria-label": `${clip(author.name, 80)}, ${clock(message.ts)}` });
  const context = { message, place, news, onThread, box, key: `${place}/${message.ts}` };
  box.append(
    h("span", { class: `avatar a${hash(author.name) % AVATARS}${author.app ? " avatar-app" : ""}`, "aria-hidden": "true", text: initial(author.name) }),
    h("div", { class: "message-body" }, heading(message, author), content(message, context.key, values), files(message), reactions(context), replies(context)),
    toolbar(context),
  );
  return box;
}

function authorOf(message) {
  const app = Boolean(message.bot_id || message.user === here.app.bot_user_id);
  const fallback = app ? here.app.name : (message.user ?? "unknown");
  return { app, name: message.username || (message.user && userName(message.user) !== message.user ? userName(message.user) : fallback) };
}

function hash(text) {
  return [...clip(text, 40)].reduce((sum, one) => (sum * 31 + one.codePointAt(0)) % 9973, 7);
}

function initial(text) {
  return ([...text].find((one) => /[\p{L}\p{N}]/u.test(one)) ?? "?").toUpperCase();
}

const TIME = new Intl.DateTimeFormat([], { hour: "2-digit", minute: "2-digit" });
const DAY = new Intl.DateTimeFormat([], { day: "numeric", month: "short" });

/** The time of a ts, with its date when that is not today. */
function clock(ts) {
  const at = new Date(Number.parseFloat(ts) * 1000);
  return at.toDateString() === new Date().toDateString() ? TIME.format(at) : `${DAY.format(at)}, ${TIME.format(at)}`;
}

function heading(message, author) {
  return h("div", { class: "message-head" },
    name(author.name, { class: "name author" }),
    author.app ? h("span", { class: "badge", text: "APP" }) : null,
    h("time", { class: "muted", datetime: new Date(Number.parseFloat(message.ts) * 1000).toISOString(), text: clock(message.ts) }),
    message.ephemeral ? h("span", { class: "only-you" }, icon("eye"), "Only visible to you") : null);
}

function content(message, key, values) {
  const edited = message.edited ? h("span", { class: "edited muted", text: "(edited)" }) : null;
  const target = { channel: message.channel, message_ts: message.ts };
  const scope = makeScope({ key, target, values });
  const body = message.blocks?.length ? renderBlocks(message.blocks, scope) : message.text ? mrkdwn(message.text) : null;
  const attachments = (message.attachments ?? []).map((one) => attachmentView(one, scope));
  return h("div", { class: "content" }, body, attachments, edited);
}

function files(message) {
  return message.files?.length ? h("div", { class: "files" }, message.files.map(fileView)) : null;
}

function reactions({ message, key, box }) {
  if (!message.reactions?.length) return null;
  return h("div", { class: "reactions", role: "group", "aria-label": "Reactions" }, message.reactions.map((one) => {
    const mine = one.users.includes(here.me);
    return h("button", {
      type: "button",
      class: "reaction",
      "aria-pressed": String(mine),
      "aria-label": `${one.name}, ${one.count}`,
      title: clip(one.users.map(userName).join(", "), 300),
      "data-key": `${key}/reaction/${one.name}`,
      on: { click: () => react(message, one.name, mine, box) },
    }, emoji(one.name), ` ${one.count}`);
  }));
}

async function react(message, reaction, remove, box) {
  complain(box, await send("react", { user: here.me, channel: message.channel, ts: message.ts, name: reaction, remove }));
}

function complain(box, answer) {
  box.querySelector(":scope > .action-error")?.remove();
  if (!answer.ok) box.append(h("p", { class: "action-error", role: "alert", text: `That failed: ${answer.error}. ${explain(answer.error)}` }));
}

function replies({ message, place, news, onThread, key }) {
  if (place !== "list" || (!message.reply_count && !news)) return null;
  const count = message.reply_count === 1 ? "1 reply" : message.reply_count ? `${message.reply_count} replies` : "Open the thread";
  return h("button", { type: "button", class: "replies", "data-key": `${key}/replies`, on: { click: () => onThread(message.thread_ts ?? message.ts) } }, icon("reply"), count, message.latest_reply ? h("span", { class: "muted", text: ` last at ${clock(message.latest_reply)}` }) : null, news ? h("span", { class: "news", text: "new" }) : null);
}

function toolbar({ message, place, onThread, key, box }) {
  const raw = { label: "Show raw JSON", run: () => showDialog("Raw message", jsonView(message, "Raw JSON of the message")) };
  const edit = message.user === here.me && !message.bot_id ? [{ label: "Edit message", run: () => editMessage(message) }] : [];
  const shortcuts = messageShortcuts().map((one) => ({ label: [one.name, h("span", { class: "muted", text: ` – ${here.app.name}` })], run: () => shortcut(message, one, box) }));
  const tools = message.ephemeral
    ? [menuButton({ label: "More actions", key: `${key}/more`, content: icon("more"), items: [raw] })]
    : [
        menuButton({ label: "Add reaction", key: `${key}/react`, content: icon("smile"), grid: true, items: REACTIONS.map((one) => ({ label: EMOJI.get(one), name: one, run: () => react(message, one, false, box) })) }),
        place === "list" ? iconButton("reply", "Reply in thread", () => onThread(message.thread_ts ?? message.ts), { "data-key": `${key}/reply` }) : null,
        menuButton({ label: "More actions", key: `${key}/more`, content: icon("more"), items: [...shortcuts, ...edit, raw] }),
      ];
  return h("div", { class: "message-tools", role: "group", "aria-label": "Message actions" }, tools);
}

async function shortcut(message, one, box) {
  complain(box, await send("shortcut", { user: here.me, callback_id: one.callback_id, channel: message.channel, message_ts: message.ts }));
}
