"""The one catch-all of the project: what nobody foresaw becomes an error that a person can read and report."""

import posixpath
from collections.abc import Generator
from contextlib import contextmanager

from bot import request_ids
from bot.errors import BotError
from bot.texts import Text


class Bug(BotError):  # noqa: N818  # what the person is told
    """Something that must not happen."""


@contextmanager
def bugs_as_errors(known: set[str] | None = None) -> Generator[None]:
    """Inside it nothing but a BotError escapes, and what is no Exception: interrupts and cancellation pass.

    The traceback goes to the log; the person is told the place, and under which id the log has it. For what is done
    again and again, `known` holds the bugs whose traceback is there already.
    """
    try:
        yield
    except BotError:
        raise
    except Exception as error:  # the one catch-all
        import logging  # noqa: PLC0415  # 8 ms of a small table, which logs nothing else

        place = _place(error)
        log = logging.getLogger(__name__)
        if known is None or place not in known:
            log.info("a bug", exc_info=error)  # below what Python prints by itself: a shell shows no traceback
        if known is not None:
            known.add(place)
        raise Bug(Text("error-bug.message", error=place), hint=_report()) from error


def _report() -> Text:
    request_id = request_ids.request_id()
    if not request_id:
        return Text("error-bug.report")
    return Text("error-bug.report-logged", field=request_ids.FIELD, request=request_id)


def _place(error: Exception) -> str:
    trace = error.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    place = f" ({posixpath.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno})" if trace else ""
    return f"{type(error).__name__}: {error}{place}"
