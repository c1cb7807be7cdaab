// What people have typed and chosen. Every input of a message or a modal registers how its value is read;
// the state that Slack sends with an interaction is collected from the document at that moment.

const readers = new WeakMap();

/** `box` is an input of (blockId, actionId); `read()` gives its entry of state.values, e.g. {type, value}. */
export function register(box, blockId, actionId, read) {
  box.dataset.input = "";
  readers.set(box, { blockId, actionId, read });
  return box;
}

/** {block_id: {action_id: {type, value | selected_option | ...}}} of all inputs inside `root`. */
export function collect(root) {
  const values = {};
  for (const box of root.querySelectorAll("[data-input]")) {
    const { blockId, actionId, read } = readers.get(box);
    values[blockId] = { ...values[blockId], [actionId]: read() };
  }
  return values;
}

/** The root of the message or view that an element belongs to. */
export function rootOf(element) {
  return element.closest("[data-state-root]");
}
