"""The format of log lines. Python's own `logging` writes them, here and in every library."""

import logging
from typing import Any, Literal

import structlog
from structlog.stdlib import ProcessorFormatter
from structlog.typing import EventDict

from bot.errors import REQUEST_FIELD, request_id

Format = Literal["text", "json"]
_FIELDS = ("cluster", "status", "ms", "verb", "outcome")
"""The values that a log line of the bot may carry beside its words; those of libraries may be secret."""


def set_up(form: Format) -> None:
    """Sets logging up to write to stderr: a line for people, or a JSON object, for each record."""
    handler = logging.StreamHandler()
    handler.setFormatter(formatter(form))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def formatter(form: Format) -> logging.Formatter:
    """The formatter of `set_up` for the form. A traceback shows no values of variables."""
    chain: list[Any] = [
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        structlog.stdlib.add_log_level,
        _add_logger_and_id,
        structlog.stdlib.ExtraAdder(allow=_FIELDS),
        structlog.processors.format_exc_info,
        _keep_formatted_traceback,
    ]
    rendered: Any = structlog.processors.JSONRenderer() if form == "json" else _line
    return ProcessorFormatter(foreign_pre_chain=chain, processors=[ProcessorFormatter.remove_processors_meta, rendered])


def _add_logger_and_id(_logger: Any, _name: str, fields: EventDict) -> EventDict:
    fields["logger"] = fields["_record"].name
    if request := request_id():
        fields[REQUEST_FIELD] = request
    return fields


def _keep_formatted_traceback(_logger: Any, _name: str, fields: EventDict) -> EventDict:
    """A filter may have made the traceback into text, to take a secret out of it: see `bot.slack.connection`."""
    text: str | None = fields["_record"].exc_text
    if text:
        fields.setdefault("exception", text)
    return fields


def _line(_logger: Any, _name: str, fields: EventDict) -> str:
    """One line of the log; what follows it is indented, so that nobody's text can pass for a line of its own."""
    request = f" [{REQUEST_FIELD}={fields[REQUEST_FIELD]}]" if REQUEST_FIELD in fields else ""
    event = "\n    ".join(fields["event"].splitlines())
    line = f"{fields['time']} {fields['level'].upper()} {fields['logger']}: {event}{request}"
    return "\n    ".join([line, *fields.get("exception", "").splitlines()])
