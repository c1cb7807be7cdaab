"""What goes wrong in a playbook of one's own: it is told by the playbook's name, and stays in it."""

import logging
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import PurePath
from types import TracebackType

from bot.errors import BotError
from bot.kube.redact import masked
from bot.report import one_line

log = logging.getLogger(__name__)
_LONGEST = 300


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
        log.warning("the playbook %s (%s)", verb, file, exc_info=error)
        kind = "" if isinstance(error, WrongPlaybookError) else f"{type(error).__name__}: "
        said = error.msg if isinstance(error, SyntaxError) else error
        what = one_line(masked(f"{kind}{said}{_place(error, file)}"), _LONGEST)
        raise OwnPlaybookError(
            f"the playbook {verb} does not work: {what}",
            hint="The bot itself is well. Whoever wrote this playbook can mend it; the bot's log has the traceback.",
        ) from error


def _place(error: BaseException, file: str) -> str:
    """The last line of the file that the error came through, as `(evictions.py:12)`."""
    if isinstance(error, SyntaxError):
        return f" ({PurePath(error.filename or file).name}:{error.lineno})"
    trace: TracebackType | None = error.__traceback__
    lines = list[int]()
    while trace:
        lines += [trace.tb_lineno] if trace.tb_frame.f_code.co_filename.endswith(file) else []
        trace = trace.tb_next
    return f" ({PurePath(file).name}:{lines[-1]})" if lines else ""
