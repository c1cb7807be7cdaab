// Slack's date tokens, shown in the reader's own time zone (https://docs.slack.dev/reference/block-kit/block-elements/date-element).

const DAY_S = 86400;
const NEAR = { "-1": "yesterday", 0: "today", 1: "tomorrow" };

const DAYS = {
  date_num: (at) => `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`,
  date_slash: written({ day: "2-digit", month: "2-digit", year: "numeric" }),
  date_long: written({ weekday: "long", day: "numeric", month: "long", year: "numeric" }),
  date_long_full: written({ day: "numeric", month: "long", year: "numeric" }),
  date: written({ day: "numeric", month: "long", year: "numeric" }),
  date_short: written({ day: "numeric", month: "short", year: "numeric" }),
};
const CLOCKS = {
  time: written({ hour: "2-digit", minute: "2-digit" }),
  time_secs: written({ hour: "2-digit", minute: "2-digit", second: "2-digit" }),
};

/** The format with its tokens filled in; null where it has a token that nobody knows, or the time is none. */
export function slackDate(seconds, format, now = Date.now()) {
  const at = new Date(seconds * 1000);
  if (Number.isNaN(at.getTime())) return null;
  let known = true;
  const text = String(format).replace(/\{([a-z_]+)\}/g, (_, token) => {
    const shown = filled(token, at, new Date(now));
    known &&= shown !== null;
    return shown;
  });
  return known ? text : null;
}

function filled(token, at, now) {
  if (token === "ago") return ago((at - now) / 1000);
  if (token === "day_divider_pretty") return near(at, now) ?? DAYS.date_long(at);
  const plain = token.replace(/_pretty$/, "");
  if (plain !== token && DAYS[plain]) return near(at, now) ?? DAYS[plain](at);
  const write = DAYS[token] ?? CLOCKS[token];
  return write ? write(at) : null;
}

/** Yesterday, today or tomorrow; null for any other day. */
function near(at, now) {
  const noon = (one) => Date.UTC(one.getFullYear(), one.getMonth(), one.getDate()) / 1000;
  return NEAR[(noon(at) - noon(now)) / DAY_S] ?? null;
}

function ago(seconds) {
  const units = [["day", DAY_S], ["hour", 3600], ["minute", 60], ["second", 1]];
  const [unit, size] = units.find(([, each]) => Math.abs(seconds) >= each) ?? units.at(-1);
  return new Intl.RelativeTimeFormat([], { numeric: "always" }).format(Math.trunc(seconds / size), unit);
}

function written(options) {
  const form = new Intl.DateTimeFormat([], options);
  return (at) => form.format(at);
}

function two(number) {
  return String(number).padStart(2, "0");
}
