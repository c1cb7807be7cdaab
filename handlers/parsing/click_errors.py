"""click's own errors as texts: apart from the grammar, so that `profile` loads nothing that takes long."""

import click

from bot.texts import Prose, Text

_OUTSIDE = " is not in the range "
"""Between the value and the range (click 8, types.py, `_NumberRangeBase.convert`)."""


def what_click_says(error: click.ClickException) -> Prose:
    """The message, as far as it is known what it is about; the rest in click's own words."""
    match error:
        case click.NoSuchOption(possibilities=None | []):
            return Text("error-click.no-such-option", option=repr(error.option_name))
        case click.BadParameter(param=click.Parameter() as param) if error.param_hint is None:
            value, outside, bounds = error.message.rstrip(".").partition(_OUTSIDE)
            why = Text("error-click.not-in-range", value=value, range=bounds) if outside else error.message
            return Text("error-click.invalid-value", what=param.get_error_hint(error.ctx), why=why)
        case _:
            return error.format_message()
