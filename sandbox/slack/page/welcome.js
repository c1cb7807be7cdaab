// The first screen: what this is, and things to try.

import { clip, h } from "./dom.js";
import { mrkdwn, plain } from "./text-view.js";
import { globalShortcuts, here, isAppDm, messageShortcuts, openChannels } from "./workspace.js";

const WHAT = "This is a sandbox: a small workspace on your own computer in which an app can be tried without a Slack account. Nothing leaves this machine, and you can break nothing.";

/** `onTry(channel, text)` opens a channel with `text` in its composer, ready to be sent. */
export function welcome(onTry) {
  const channels = openChannels().filter((one) => !one.is_im && !one.is_mpim);
  const channel = channels.find((one) => (one.members ?? []).includes(here.app.bot_user_id)) ?? channels[0];
  return h("div", { class: "welcome", tabindex: "0", role: "region", "aria-label": "Start here" },
    h("div", { class: "welcome-inner" },
      h("h1", {}, "Try ", plain(clip(here.app.name, 80)), " without Slack"),
      h("div", { class: "welcome-text" }, here.welcome ? mrkdwn(here.welcome) : h("p", { text: WHAT })),
      here.app.connected ? null : h("p", { class: "alert alert-warning" }, "The app is not connected yet. Commands and buttons will answer “dispatch_failed” until it is."),
      channel ? attempts(channel, onTry) : null,
      h("h2", { text: "Also worth a try" }),
      h("ul", { class: "hints" }, hints(channel).map((one) => h("li", {}, one)))));
}

function attempts(channel, onTry) {
  const command = here.app.commands[0];
  if (!command) return null;
  const usages = here.verbs.length ? here.verbs.map((one) => [one.usage || one.name, one.help]) : [["help", "what the app can do"]];
  return [
    h("h2", {}, "Commands to try in #", plain(clip(channel.name, 80))),
    h("ul", { class: "attempts" }, usages.map(([usage, help]) => {
      const text = `${command.command} ${usage}`.trim();
      return h("li", {}, h("button", { type: "button", class: "attempt", on: { click: () => onTry(channel, text) } }, h("code", {}, plain(text)), h("span", { class: "muted" }, plain(help ?? ""))));
    })),
  ];
}

function hints(channel) {
  const dm = openChannels().find(isAppDm);
  const shortcut = messageShortcuts()[0];
  const place = (one, words) => h("a", { href: `#/c/${one.id}`, text: words });
  return [
    channel ? ["Mention the app in ", place(channel, clip(`#${channel.name}`, 80)), ": write ", h("code", {}, `@${here.app.aliases?.[0] ?? here.users.find((one) => one.id === here.app.bot_user_id)?.name ?? here.app.name}`), " and a question. It answers in a thread, and follow-ups there need no command."] : null,
    dm ? ["Write to it ", place(dm, "in private"), ", or look at ", h("a", { href: `#/c/${dm.id}/home`, text: "its Home tab" }), "."] : null,
    shortcut ? ["Open the menu of a message (the three dots) and choose ", h("strong", {}, plain(shortcut.name)), "."] : null,
    globalShortcuts().length ? "Open the shortcuts beside the field you write in." : null,
    "Act as somebody else with the switch at the top: an answer that was only for you is gone for them.",
    "Open the inspector at the top to see every request, answer and rule that was broken, as raw JSON.",
  ].filter(Boolean);
}
