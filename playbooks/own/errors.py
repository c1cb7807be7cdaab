"""What goes wrong in a playbook of one's own: it is told by the playbook's name, and stays in it."""

import logging
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import PurePath
from types import TracebackType

from bot.errors import BotError
from bot.kube.recording.redact import masked
from bot.report import one_line
from bot.texts import Text

log = logging.getLogger(__name__)
_LONGEST = 300
_BROKEN = Text("error-own.bot-is-well-author")
_WRONG = Text("error-own.bot-is-well-docs")


class OwnPlaybookError(BotError):
    """A playbook of somebody's own does not work. Its message names the verb, the error and the line."""


class WrongPlaybookError(ValueError):
    """`PLAYBOOK` is no playbook, or what its `diagnose` returned is no answer."""


@contextmanager
def told_by_name(verb: str, file: str) -> Generator[None]:
    """Whatever is raised inside becomes an OwnPlaybookError that names the line of the file; a BotError passes."""
    try:
        yield
    except BotError:
        raise
    except (Exception, SystemExit) as error:
        steps = _steps(error, file)
        traceback = (type(error), error, steps[0] if steps else _traceback(error))
        log.warning("the playbook %s does not work (%s)", verb, file, exc_info=traceback)
        is_wrong = isinstance(error, WrongPlaybookError)
        kind = "" if is_wrong else f"{type(error).__name__}: "
        said = error.msg if isinstance(error, SyntaxError) else error
        what = one_line(masked(f"{kind}{said}{_place(error, file, steps)}", _LONGEST + 1), _LONGEST)
        raise OwnPlaybookError(
            Text("error-own.playbook-does-not-work", verb=verb, what=what),
            hint=_WRONG if is_wrong else _BROKEN,
        ) from error


def _place(error: BaseException, file: str, steps: list[TracebackType]) -> str:
    """The last line of the file that the error came through, as `(evictions.py:12)`."""
    if isinstance(error, SyntaxError):
        return f" ({PurePath(error.filename or file).name}:{error.lineno})"
    return f" ({PurePath(file).name}:{steps[-1].tb_lineno})" if steps else ""


def _steps(error: BaseException, file: str) -> list[TracebackType]:
    """What of the traceback is in the playbook's file. The first of them has all that came after it."""
    found = list[TracebackType]()
    trace = error.__traceback__
    while trace:
        found += [trace] if trace.tb_frame.f_code.co_filename.endswith(file) else []
        trace = trace.tb_next
    return found


def _traceback(error: BaseException) -> TracebackType | None:
    """That of an error which did not come through the file; none where its own words say the place."""
    return None if isinstance(error, SyntaxError | WrongPlaybookError) else error.__traceback__
