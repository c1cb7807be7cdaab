// Talks to the sandbox's server. Failures come back as {ok: false, error}, in the words of Slack where Slack has one.

const HEADERS = { "X-Sandbox": "1" };

const WORDS = {
  operation_timeout: "The app did not acknowledge within 3 seconds.",
  dispatch_failed: "No app is connected to receive it. Start the bot, then try again.",
  not_in_thread: "Slack runs no slash commands in threads. Mention the bot here instead, or use the command in the channel.",
  server_unreachable: "The sandbox's server does not answer. Is it still running?",
  invalid_command: "No app of this workspace has this command.",
  is_archived: "The channel is archived.",
};

/** What a person can make of an error code; empty when there is nothing to add to the code. */
export function explain(error) {
  return WORDS[error] ?? "";
}

async function answer(promise) {
  let response;
  try {
    response = await promise;
  } catch {
    return { ok: false, error: "server_unreachable" };
  }
  let body;
  try {
    body = await response.json();
  } catch {
    return { ok: false, error: `http_${response.status}` };
  }
  return response.ok ? { ok: true, ...body } : { error: `http_${response.status}`, ...body, ok: false };
}

/** GET /ui/<path>; parameters that are null are left out. */
export function read(path, params = {}) {
  const given = Object.entries(params).filter(([, value]) => value !== null && value !== undefined);
  const query = new URLSearchParams(given).toString();
  return answer(fetch(`/ui/${path}${query ? `?${query}` : ""}`, { headers: HEADERS, cache: "no-store" }));
}

/** POST /ui/<path> with a JSON body. */
export function send(path, body) {
  return answer(
    fetch(`/ui/${path}`, { method: "POST", headers: { ...HEADERS, "Content-Type": "application/json" }, body: JSON.stringify(body) }),
  );
}

/** The text of a file of this server, at most `limit` characters; rejects with an Error that says why. */
export async function fileText(url, limit) {
  const response = await fetch(url, { headers: HEADERS });
  if (!response.ok) throw new Error(`the server answered ${response.status}`);
  return (await response.text()).slice(0, limit);
}

/** Where a file of a message is read from; null while it has no content. Its name may hold what means something in a URL. */
export function fileUrl({ id, name, url }) {
  if (!url) return null;
  const last = /^\.*$/.test(name ?? "") ? "file" : encodeURIComponent(String(name).slice(0, 100).toWellFormed());
  return `/files/${encodeURIComponent(id)}/${last}`;
}

/** Whether a URL points to this server. */
export function isOwn(url) {
  try {
    return new URL(url, location.href).origin === location.origin;
  } catch {
    return false;
  }
}

/** Listens for changes seen by `user` until the returned function is called. What changed before `onOpen` is not told. */
export function listen(user, { onEvent, onOpen, onLost }) {
  const source = new EventSource(`/ui/events?user=${encodeURIComponent(user)}`);
  source.onopen = onOpen;
  source.onerror = () => onLost();
  source.onmessage = (event) => onEvent(JSON.parse(event.data));
  return () => source.close();
}
