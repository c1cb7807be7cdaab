// A small set of Slack's emoji names; a name that is not here is shown as it was written.

export const EMOJI = new Map(
  Object.entries({
    "+1": "👍", "-1": "👎", alarm_clock: "⏰", arrow_down: "⬇️", arrow_right: "➡️", arrow_up: "⬆️", ballot_box_with_check: "☑️",
    bar_chart: "📊", bell: "🔔", black_circle: "⚫", blue_circle: "🔵", book: "📖", bookmark: "🔖", boom: "💥", brain: "🧠", broom: "🧹",
    bug: "🐛", bulb: "💡", chart_with_downwards_trend: "📉", chart_with_upwards_trend: "📈", clap: "👏", clipboard: "📋",
    clock1: "🕐", closed_lock_with_key: "🔐", computer: "💻", construction: "🚧", electric_plug: "🔌", eyes: "👀",
    exclamation: "❗", file_folder: "📁", fire: "🔥", fire_engine: "🚒", gear: "⚙️", green_circle: "🟢", grey_question: "❔",
    hammer_and_wrench: "🛠️", heart: "❤️", heavy_check_mark: "✔️", heavy_minus_sign: "➖", heavy_multiplication_x: "✖️",
    hourglass: "⌛", hourglass_flowing_sand: "⏳", information_source: "ℹ️", key: "🔑", label: "🏷️", large_blue_circle: "🔵",
    large_green_circle: "🟢", large_orange_circle: "🟠", large_red_circle: "🔴", large_yellow_circle: "🟡", link: "🔗", lock: "🔒",
    mag: "🔍", mag_right: "🔎", memo: "📝", mute: "🔇", negative_squared_cross_mark: "❎", no_entry: "⛔", no_entry_sign: "🚫",
    ok: "🆗", ok_hand: "👌", orange_circle: "🟠", package: "📦", pencil: "✏️", point_right: "👉", pray: "🙏", pushpin: "📌",
    question: "❓", raised_hands: "🙌", recycle: "♻️", red_circle: "🔴", repeat: "🔁", robot_face: "🤖", rocket: "🚀",
    rotating_light: "🚨", satellite: "📡", scroll: "📜", see_no_evil: "🙈", shield: "🛡️", skull: "💀", slightly_smiling_face: "🙂",
    smile: "😄", snowflake: "❄️", sos: "🆘", sparkles: "✨", speech_balloon: "💬", star: "⭐", stop_sign: "🛑", stopwatch: "⏱️",
    tada: "🎉", thinking_face: "🤔", thread: "🧵", thumbsdown: "👎", thumbsup: "👍", tools: "🛠️", unlock: "🔓", warning: "⚠️",
    wave: "👋", white_check_mark: "✅", white_circle: "⚪", wrench: "🔧", x: "❌", yellow_circle: "🟡", zap: "⚡", zzz: "💤",
  }),
);

/** The ones offered for a reaction. */
export const REACTIONS = ["thumbsup", "thumbsdown", "eyes", "white_check_mark", "x", "tada", "heart", "thinking_face"];
