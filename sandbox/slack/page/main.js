// Puts the parts together: which place is open, and what is re-read when something changed.

import { listen, read } from "./api.js";
import { conversation } from "./conversation.js";
import { byId, clip, coalesced, h, iconButton, keepFocus } from "./dom.js";
import { homeTab } from "./home.js";
import { inspector } from "./inspector.js";
import { modals } from "./modal.js";
import { unpressed } from "./press.js";
import { drawSidebar, markRead, markUnread } from "./sidebar.js";
import { name, plain } from "./text-view.js";
import { welcome } from "./welcome.js";
import { become, channelById, channelTitle, here, isAppDm, learn, openChannels, people } from "./workspace.js";

const STATUS_LIFE = 120_000; // ms; Slack takes an app's status line away after two minutes
const open = { channel: null, tab: "messages", talk: null, thread: null, threadTs: null, home: null };
const statuses = new Map(); // "channel/thread" -> {text, timer}
const modal = modals();
const journal = inspector(byId("inspector-toggle"));
let stopListening = () => {};

// --- where the person is: #/start, #/c/<channel>, #/c/<channel>/t/<ts>, #/c/<channel>/home

function place() {
  const [, kind, channel, what, ts] = location.hash.split("/").map(decodeURIComponent);
  const known = kind === "c" && openChannels().find((one) => one.id === channel);
  if (!known) return { channel: null, tab: "start", ts: null };
  return { channel: known, tab: what === "home" && isAppDm(known) ? "home" : "messages", ts: what === "t" ? ts : null };
}

function show({ force = false } = {}) {
  const { channel, tab, ts } = place();
  if (force || channel?.id !== open.channel?.id || tab !== open.tab || (!channel && !byId("main-body").childElementCount)) showMain(channel, tab);
  if (force || ts !== open.threadTs || !open.thread) showThread(channel, ts);
  document.body.classList.remove("sidebar-open");
  byId("sidebar-toggle").setAttribute("aria-expanded", "false");
  sidebar();
}

function showMain(channel, tab) {
  open.talk?.close();
  Object.assign(open, { channel, tab, talk: null, home: null });
  if (channel) markRead(channel.id);
  byId("main-head").replaceChildren(...head(channel, tab));
  document.title = `${channel ? channelTitle(channel).slice(0, 80) : "Start"} – ${here.app.name} sandbox`;
  if (!channel) {
    byId("main-body").replaceChildren(welcome(tryOut));
  } else if (tab === "home") {
    open.home = homeTab();
    byId("main-body").replaceChildren(open.home.node);
    open.home.open();
  } else {
    open.talk = conversation({ channel, thread_ts: null }, { onThread: (ts) => go(channel, `t/${ts}`) });
    byId("main-body").replaceChildren(open.talk.node);
    open.talk.refresh().then(drawStatuses);
  }
}

function head(channel, tab) {
  if (!channel) return [h("span", { class: "main-title", text: "Start here" })];
  const title = [h("h1", { class: "main-title" }, name(channelTitle(channel))), channel.topic ? h("span", { class: "topic muted" }, plain(channel.topic.slice(0, 250))) : null];
  if (!isAppDm(channel)) return title.filter(Boolean);
  const link = (key, label, to) => h("a", { class: "tab", href: to, "data-key": `tab/${key}`, "aria-current": tab === key ? "page" : null, text: label });
  return [...title, h("nav", { class: "tabs", "aria-label": "Views of the app" }, link("messages", "Messages", `#/c/${channel.id}`), link("home", "Home", `#/c/${channel.id}/home`))].filter(Boolean);
}

function showThread(channel, ts) {
  const pane = byId("thread");
  const had = pane.contains(document.activeElement);
  open.thread?.close();
  Object.assign(open, { thread: null, threadTs: ts });
  pane.hidden = !ts;
  if (!ts) {
    pane.replaceChildren();
    if (had) open.talk?.field.focus();
    return drawStatuses();
  }
  open.thread = conversation({ channel, thread_ts: ts });
  pane.replaceChildren(
    h("div", { class: "pane-head" }, h("h2", { id: "thread-title" }, "Thread ", h("span", { class: "muted" }, name(channelTitle(channel)))), iconButton("close", "Close the thread", () => closeThread())),
    open.thread.node,
  );
  open.thread.field.focus();
  open.talk?.list.markThread(ts, false);
  return open.thread.refresh().then(drawStatuses);
}

function closeThread() {
  const ts = open.threadTs;
  go(open.channel, "");
  show();
  const back = document.querySelector(`[data-key="list/${CSS.escape(ts)}/replies"], [data-key="list/${CSS.escape(ts)}/reply"]`);
  if (back) back.focus();
  else open.talk?.field.focus();
}

function go(channel, rest) {
  location.hash = `#/c/${encodeURIComponent(channel.id)}${rest ? `/${rest}` : ""}`;
}

function tryOut(channel, text) {
  go(channel, "");
  show();
  open.talk.field.fill(text);
}

// --- the frame around it

function sidebar() {
  keepFocus(() => drawSidebar(open.channel?.id ?? "start"));
}

function frame() {
  const select = byId("act-as");
  select.replaceChildren(...people().map((one) => h("option", { value: one.id, selected: one.id === here.me }, plain(clip(one.real_name ? `${one.name} – ${one.real_name}` : one.name, 60)))));
  byId("team").replaceChildren(...plain((here.team.name ?? "").slice(0, 80)));
  const state = byId("app-state");
  state.classList.toggle("on", here.app.connected);
  state.replaceChildren(...plain(`${here.app.name.slice(0, 60)} is ${here.app.connected ? "connected" : "not connected"}`));
}

function showProblem(words) {
  const bar = byId("problem");
  bar.textContent = words;
  bar.hidden = !words;
}

// --- status lines of the app

function keepStatus({ channel, thread_ts: thread, text }) {
  const key = `${channel}/${thread ?? ""}`;
  clearTimeout(statuses.get(key)?.timer);
  statuses.delete(key);
  const timer = text ? setTimeout(() => keepStatus({ channel, thread_ts: thread, text: "" }), STATUS_LIFE) : 0;
  if (text) statuses.set(key, { text, timer });
  drawStatuses();
}

/** A status belongs to a thread; while that thread is not open, the channel shows it. */
function drawStatuses() {
  const id = open.channel?.id;
  const inThread = open.thread ? statuses.get(`${id}/${open.threadTs}`) : null;
  const others = [...statuses].filter(([key, one]) => key.startsWith(`${id}/`) && one !== inThread).map(([, one]) => one.text);
  const line = (text) => (text ? `${here.app.name} ${text}` : "");
  open.thread?.list.status(line(inThread?.text));
  open.talk?.list.status(others.map(line).join("\n"));
}

// --- what changed

const refreshWorkspace = coalesced(async () => {
  const answer = await read("workspace");
  if (!answer.ok) return showProblem(`The workspace could not be read: ${answer.error}`);
  learn(answer);
  frame();
  return sidebar();
});

function refreshAll() {
  return Promise.all([refreshWorkspace(), open.talk?.refresh(), open.thread?.refresh(), open.home?.refresh(), modal.refresh(), journal.refresh()]);
}

async function changed(event) {
  if (event.type === "messages") {
    if (!channelById(event.channel)) await refreshWorkspace();
    if (event.channel === open.channel?.id) {
      open.talk?.refresh();
      open.thread?.refresh();
      if (event.thread_ts && event.thread_ts !== open.threadTs) open.talk?.list.markThread(event.thread_ts, true);
    } else {
      markUnread(event.channel);
      sidebar();
    }
  } else if (event.type === "home") {
    open.home?.refresh();
  } else if (event.type === "views") {
    modal.refresh();
  } else if (event.type === "journal") {
    journal.refresh();
  } else if (event.type === "app") {
    await refreshWorkspace();
    if (!open.channel) unpressed(() => { if (!open.channel) showMain(null, "start"); });
    if (event.connected) open.home?.open();
  } else if (event.type === "status") {
    keepStatus(event);
  }
}

function listenAs() {
  stopListening();
  stopListening = listen(here.me, {
    onEvent: changed,
    onOpen() {
      showProblem("");
      refreshAll();
    },
    onLost: () => showProblem("The connection to the sandbox is lost. Trying again…"),
  });
}

byId("act-as").addEventListener("change", (event) => {
  become(event.target.value);
  modal.shut();
  listenAs();
  show({ force: true });
  modal.refresh();
});
byId("sidebar-toggle").addEventListener("click", () => {
  const opened = document.body.classList.toggle("sidebar-open");
  byId("sidebar-toggle").setAttribute("aria-expanded", String(opened));
  if (opened) byId("places").querySelector("a").focus();
});
byId("thread").addEventListener("keydown", (event) => {
  if (event.key === "Escape") closeThread();
});
byId("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the hash says which place is open
  byId("main").focus();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && document.body.classList.contains("sidebar-open")) byId("sidebar-toggle").click();
});
window.addEventListener("hashchange", () => show());

await refreshWorkspace();
if (here.me) {
  show({ force: true });
  listenAs();
  await modal.refresh();
}
document.body.dataset.ready = "true";
