// What the composer offers while a person types. Pure.

/**
 * Suggestions for the word that ends at `caret`, or null: {from, to, items: [{label, insert, help}], eager}.
 * `eager` means Enter takes the first one: the word is begun and is not yet a whole name.
 * `facts`: {commands: [{command, usage_hint, description}], verbs: [{name, usage, help}], names: [{name, help}],
 * apps: names of the app after which its verbs are offered, direct: whether the app is all ears anyway}.
 */
export function suggest(text, caret, facts) {
  const before = text.slice(0, caret);
  if (/\S/.test(text[caret] ?? "")) return null;
  const word = /\S*$/.exec(before)[0];
  const from = caret - word.length;
  const lead = before.slice(0, from).trim();
  const make = (options) => {
    const items = options.filter((one) => one.label.toLowerCase().startsWith(word.toLowerCase()));
    const whole = items.some((one) => one.label.toLowerCase() === word.toLowerCase());
    return items.length && !(whole && items.length === 1) ? { from, to: caret, items: items.slice(0, 12), eager: word.length > 0 && !whole } : null;
  };
  if (word.startsWith("/") && !lead) return make(facts.commands.map((one) => ({ label: one.command, insert: `${one.command} `, help: one.description || one.usage_hint || "" })));
  if (word.startsWith("@")) return make(facts.names.map((one) => ({ label: `@${one.name}`, insert: `@${one.name} `, help: one.help })));
  const addressed = facts.commands.some((one) => one.command === lead) || facts.apps.some((one) => `@${one}`.toLowerCase() === lead.toLowerCase());
  const verbs = () => make(facts.verbs.map((one) => ({ label: one.name, insert: `${one.name} `, help: one.usage ? `${one.usage} – ${one.help}` : one.help })));
  if (addressed) return verbs();
  return facts.direct && !lead && word ? verbs() : null;
}
