// What the page knows of the workspace: who is there, who the person acts as, and what things are called.

export const here = {
  team: { id: "", name: "" },
  users: [],
  channels: [],
  app: { id: "", name: "app", bot_user_id: "", commands: [], shortcuts: [], connected: false },
  verbs: [],
  welcome: "",
  me: "",
};

const STORED_USER = "sandbox-user";

/** Takes over the answer of /ui/workspace; keeps the person if they still exist. */
export function learn(answer) {
  const { team, users, channels, app, verbs, welcome } = answer;
  Object.assign(here, { team, users, channels, app: { commands: [], shortcuts: [], ...app }, verbs: verbs ?? [], welcome: welcome ?? "" });
  const known = people().map((one) => one.id);
  const wanted = here.me || sessionStorage.getItem(STORED_USER);
  here.me = known.includes(wanted) ? wanted : (known[0] ?? "");
}

export function become(user) {
  here.me = user;
  sessionStorage.setItem(STORED_USER, user);
}

export function people() {
  return here.users.filter((one) => !one.is_bot);
}

export function userName(id) {
  const found = here.users.find((one) => one.id === id);
  return found ? found.name : id;
}

export function channelById(id) {
  return here.channels.find((one) => one.id === id);
}

/** The other member of a direct message, seen by the acting person. */
function peer(channel) {
  return (channel.members ?? []).find((id) => id !== here.me) ?? here.me;
}

export function channelName(channel) {
  if (channel.is_mpim) return (channel.members ?? []).filter((id) => id !== here.me).map(userName).join(", ");
  return channel.is_im ? userName(peer(channel)) : channel.name;
}

export function channelTitle(channel) {
  return isDirect(channel) ? channelName(channel) : `#${channel.name}`;
}

/** Whether it is a conversation of people, two or more, and no channel. */
export function isDirect(channel) {
  return channel.is_im || channel.is_mpim;
}

export function isAppDm(channel) {
  return Boolean(channel?.is_im && (channel.members ?? []).includes(here.app.bot_user_id));
}

/** The channels and direct messages that the acting person is in. */
export function openChannels() {
  return here.channels.filter((one) => (one.members ?? []).includes(here.me));
}

export function messageShortcuts() {
  return here.app.shortcuts.filter((one) => one.type === "message");
}

export function globalShortcuts() {
  return here.app.shortcuts.filter((one) => one.type === "global");
}
