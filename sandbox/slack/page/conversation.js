// A conversation: a live list of messages with a composer under it. The channel and the thread pane are two of these.

import { read } from "./api.js";
import { composer } from "./composer.js";
import { clip, coalesced, h } from "./dom.js";
import { messageList } from "./messagelist.js";
import { channelTitle, here } from "./workspace.js";

/** `place`: {channel (object), thread_ts or null}. `onThread(ts)` opens a thread. */
export function conversation(place, { onThread } = {}) {
  const title = clip(channelTitle(place.channel), 80);
  const box = h("div", { class: "log-box" });
  const list = messageList(box, {
    label: place.thread_ts ? `Thread in ${title}` : `Messages in ${title}`,
    place: place.thread_ts ? "thread" : "list",
    empty: place.channel.is_im ? "Nothing here yet. Write something below." : "Nothing here yet. Say something, or try a command.",
    onThread,
  });
  const problem = h("p", { class: "action-error", role: "alert", hidden: true });
  const field = composer({ ...place, label: place.thread_ts ? "Reply in this thread" : `Message ${title}` }, () => list.toEnd());
  let closed = false;

  const refresh = coalesced(async () => {
    const answer = await read("messages", { user: here.me, channel: place.channel.id, thread_ts: place.thread_ts });
    if (closed) return;
    problem.hidden = answer.ok;
    problem.textContent = answer.ok ? "" : `These messages could not be read: ${answer.error}`;
    if (answer.ok) list.show(answer.messages);
  });

  return {
    node: h("div", { class: "conversation" }, problem, box, field.node),
    list,
    field,
    refresh,
    close() {
      closed = true;
      list.close();
    },
  };
}
