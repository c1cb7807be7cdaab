// The Home tab of the app.

import { explain, read, send } from "./api.js";
import { renderBlocks } from "./blocks.js";
import { makeScope } from "./block-scope.js";
import { collect } from "./block-values.js";
import { coalesced, h, keepFocus } from "./dom.js";
import { unpressed } from "./press.js";
import { here } from "./workspace.js";

/** Shows the person's Home; opening it tells the app, which publishes it. */
export function homeTab() {
  const body = h("div", { class: "home-body", "data-state-root": "" });
  const node = h("div", { class: "home", tabindex: "0", role: "region", "aria-label": `Home of ${here.app.name}` }, body);
  let drawn = "";

  const refresh = coalesced(async () => {
    const answer = await read("home", { user: here.me });
    const json = JSON.stringify(answer);
    if (json === drawn) return;
    drawn = json;
    unpressed(() => keepFocus(() => body.replaceChildren(...content(answer))));
  });

  function content(answer) {
    if (!answer.ok) return [h("p", { class: "empty", text: `The Home tab could not be read: ${answer.error}` })];
    if (!answer.view) return [h("p", { class: "empty", text: here.app.connected ? "The app has not published a Home tab for you." : "No Home tab yet: the app is not connected." })];
    const scope = makeScope({ key: "home", target: { view_id: answer.view.id }, values: collect(body) });
    return renderBlocks(answer.view.blocks, scope);
  }

  async function open() {
    const answer = await send("home_open", { user: here.me });
    await refresh();
    if (!answer.ok) body.prepend(h("p", { class: "action-error", role: "alert", text: `The app was not told that its Home was opened: ${answer.error}. ${explain(answer.error)}` }));
  }

  return { node, refresh, open };
}
