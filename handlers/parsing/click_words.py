"""click's errors and help in the reader's language; apart from the grammar, so that `profile` starts fast."""

import re
from collections.abc import Iterable

import click

from bot.texts import Prose, Text, Texts

_SENTENCE_END = re.compile(r"(?<=[.?])\s")
_SAID = {
    re.compile(r"(?P<value>.*) is not in the range (?P<range>.*)\."): "error-click.not-in-range",
    re.compile(r"(?P<value>.*) is not one of (?P<known>.*)\."): "error-click.none-of",
    re.compile(r"(?P<value>.*) is not a valid integer.*"): "error-click.no-whole-number",
    re.compile(r"(?P<value>.*) is not a valid float.*"): "error-click.no-number",
    re.compile(r"Option (?P<option>.*) requires an argument\."): "error-click.needs-value",
    re.compile(r"Option (?P<option>.*) does not take a value\."): "error-click.no-value",
    re.compile(r"Got unexpected extra arguments? \((?P<words>.*)\)"): "error-click.extra",
}
"""click's own sentences (click 8, types.py, parser.py, core.py), and the texts that say the same."""


def what_click_says(error: click.ClickException) -> Prose:
    """The message of click's error, as a text if its kind is known; otherwise in click's own words."""
    match error:
        case click.NoSuchOption(option_name=option, possibilities=near):
            key = "error-command.no-option-did-you-mean" if near else "error-command.no-option"
            return Text(key, option=option, near=near[0] if near else "")
        case click.BadParameter(param=click.Parameter() as param) if error.param_hint is None:
            what = param.get_error_hint(error.ctx)
            return Text("error-click.invalid-value", what=what, why=_said(error.message) or error.message)
        case _:
            return _said(error.message) or error.format_message()


def _said(message: str) -> Text | None:
    found = ((said, said.fullmatch(message)) for said in _SAID)
    return next((Text(_SAID[said], **hit.groupdict()) for said, hit in found if hit), None)


def help_of(context: click.Context, say: Texts) -> str:
    """The help that click shows for `--help`, in the reader's language."""
    if say.language != "en":
        context.formatter_class = type("_", (_Formatter,), {"say": say})
    return context.get_help()


def in_words(text: str, say: Texts) -> str:
    """A help text in the reader's language, sentence by sentence; a paragraph that click does not wrap stays."""
    if say.language == "en":
        return text
    return "\n\n".join(
        part if part.startswith("\b") else "".join(say.name(one, "help") for one in sentences_in(part))
        for part in text.split("\n\n")
    )


def sentences_in(text: str) -> list[str]:
    """The sentences of a text, each on one line."""
    return _SENTENCE_END.split(" ".join(text.split()))


class _Formatter(click.HelpFormatter):
    """click's help in a language whose letters are two columns wide."""

    say: Texts

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        super().write_usage(prog, args, prefix or f"{self.say.name('Usage', 'help')}：")

    def write_heading(self, heading: str) -> None:
        self.write(f"{'':{self.current_indent}}{self.say.name(heading, 'help')}：\n")

    def write_text(self, text: str) -> None:
        from bot.render.layout import wrap  # noqa: PLC0415  # msgspec, which a table of a profile does without

        lead = " " * self.current_indent
        for part in in_words(text, self.say).split("\n\n"):
            lines = part[2:].split("\n") if part.startswith("\b") else wrap(part, self.width - self.current_indent)
            self.write("".join(f"{lead}{line}\n" for line in lines))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        from bot.render.layout import wrap  # noqa: PLC0415

        rows = list(rows)
        wide = min(max(len(name) for name, _ in rows), col_max) + col_spacing
        lead, later = " " * self.current_indent, " " * (self.current_indent + wide)
        for name, text in rows:
            first, *others = wrap(in_words(text, self.say), self.width - len(later))
            begins = f"{name:{wide}}" if len(name) <= wide - col_spacing else f"{name}\n{later}"
            self.write("\n".join([f"{lead}{begins}{first}", *(later + line for line in others), ""]))
