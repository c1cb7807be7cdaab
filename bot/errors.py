"""What can go wrong, as a person should read it.

    BotError
    ├── UsageError      the command was wrong                       exit code 2
    │   ├── WhichCluster    there are several, and none was named
    │   └── NoSuchCluster   there is none of that name
    ├── NotAllowed      who asks may not do that                    exit code 4
    └── SourceError     a source could not be read                  exit code 3
        ├── Troubled    what answers is out of order, or is no such source
        ├── NotFound    it was read, and the object is not there
        └── Unusable    nothing of it can be read: unreachable, credentials refused, damaged

Every message says what was tried and what came back; `hint` says what to do about it, with an example at its end. Both
are texts, which are words once somebody's language is known: `str(error)` is English, for logs and the audit log.

The id of one cause, such as a request of a person, stands in every log line and call to an API server that comes of it.
"""

import difflib
import errno
import posixpath
import zlib
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from bot.texts import Prose, Text, in_english, spaced

_SHOWN_NAME = 60


class BotError(Exception):
    """An error whose text is meant for the person who asked."""

    exit_code = 1
    people: tuple[str, ...] = ()
    """The users of Slack whose ids stand in it."""

    def __init__(self, message: Prose, *, hint: Prose = "", example: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.advice = hint
        self.example = example

    @property
    def hint(self) -> Prose:
        """The advice, and the example behind it."""
        return spaced(self.advice, Text("error.example", example=self.example)) if self.example else self.advice

    def __str__(self) -> str:
        return "\n".join(filter(None, map(in_english, (self.message, self.hint))))


class WrongValue(ValueError):  # noqa: N818  # what the person is told
    """What somebody wrote cannot be used; `text` says why, without repeating it where it may be a secret."""

    def __init__(self, text: Prose) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return in_english(self.text)


_SYSTEM = {
    errno.ENOENT: Text("error-system.no-such-file"),
    errno.EACCES: Text("error-system.permission-denied"),
    errno.EISDIR: Text("error-system.is-a-directory"),
    errno.ENOTDIR: Text("error-system.not-a-directory"),
    errno.EEXIST: Text("error-system.file-exists"),
    errno.ENOSPC: Text("error-system.no-space-left"),
    errno.EROFS: Text("error-system.read-only"),
    errno.EADDRINUSE: Text("error-system.address-in-use"),
    errno.ECONNREFUSED: Text("error-system.connection-refused"),
    errno.ECONNRESET: Text("error-system.connection-reset"),
}


def of_system(error: OSError) -> Prose:
    """What the operating system says of it, without the path; empty where it says nothing."""
    return _SYSTEM.get(error.errno or 0) or error.strerror or ""


class UsageError(BotError):
    """The command as typed makes no sense; nothing was read. `usage` and `more` are lines for a shell."""

    exit_code = 2
    usage = ""
    more = ""

    def __str__(self) -> str:
        message, hint = in_english(self.message), in_english(self.hint)
        return "\n".join(filter(None, (message, self.usage, hint, self.more)))


class WhichCluster(UsageError):  # noqa: N818  # what the person is asked
    """The settings name several clusters, and nothing says which one is meant."""

    def __init__(self, clusters: Sequence[str]) -> None:
        names = ", ".join(clusters)
        hint = Text("error.which-cluster-hint", names=names, one=clusters[0])
        super().__init__(Text("error.which-cluster"), hint=hint)
        self.clusters = tuple(clusters)


class NoSuchCluster(UsageError):  # noqa: N818  # what the person is told
    """None of the clusters that there are has that name."""

    def __init__(self, name: str, clusters: Collection[str]) -> None:
        shown = repr(name[:_SHOWN_NAME])
        names = ", ".join(sorted(clusters))
        hint = Text("error.no-cluster-hint", names=names) if clusters else Text("error.no-clusters-hint")
        super().__init__(Text("error.no-cluster", cluster=shown), hint=hint)


def not_understood(word: str, known: Collection[str]) -> Text:
    """Says that a word is none of the known ones, and which of them it looks like."""
    if near := difflib.get_close_matches(word.casefold(), known, n=1):
        return Text("error-command.not-understood-did-you-mean", word=repr(word), near=repr(near[0]))
    return Text("error-command.not-understood", word=repr(word))


class NotAllowed(BotError):  # noqa: N818  # what the person is told
    """Who asks may not do that; nothing was done."""

    exit_code = 4


class SourceError(BotError):
    """A source could not be read. Raised by adapters only; a playbook turns it into a `Gap`."""

    exit_code = 3


class Troubled(SourceError):  # noqa: N818  # what the person is told
    """The source answered with an error of its own, or something else answered in its place."""


class NotFound(SourceError):  # noqa: N818  # the API's own word
    """The source answered, and what was asked for does not exist."""


class Unusable(SourceError):  # noqa: N818  # what the person is told
    """The source is of no use at all. Where the thing asked about stands in it, there is no report."""


REQUEST_FIELD = "request_id"
"""What log lines call it."""
_ID: ContextVar[str] = ContextVar(REQUEST_FIELD, default="")


def begin_request(key: str) -> None:
    """From here on the current task, and what it starts, is about this key, such as Slack's id of a delivery.

    The id is made of the key, so that another replica, or this one after a restart, goes on under the same.
    """
    _ID.set(_id_of(key))


@contextmanager
def about_request(key: str) -> Generator[None]:
    """What happens inside is about this key, unless it belongs to something larger already."""
    token = _ID.set(_ID.get() or _id_of(key))
    try:
        yield
    finally:
        _ID.reset(token)


def request_id() -> str:
    """The id, of 8 hexadecimal digits; empty for what is done all day long, such as a watch."""
    return _ID.get()


def _id_of(key: str) -> str:
    return f"{zlib.crc32(key.encode(errors='replace')):08x}"


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
        hint = Text("error-bug.report")
        if request := request_id():
            hint = Text("error-bug.report-logged", field=REQUEST_FIELD, request=request)
        raise Bug(Text("error-bug.message", error=place), hint=hint) from error


def _place(error: Exception) -> str:
    trace = error.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    place = f" ({posixpath.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno})" if trace else ""
    return f"{type(error).__name__}: {error}{place}"
