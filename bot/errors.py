"""Errors, in words for the person who asked, and the id of a request in log lines.

    BotError
    ├── UsageError      the command was wrong                       exit code 2
    │   ├── WhichCluster    there are several clusters, and none was named
    │   └── NoSuchCluster   there is no cluster of that name
    ├── NotAllowed      the person may not do that                  exit code 4
    └── SourceError     a source could not be read                  exit code 3
        ├── Troubled    an error of the source itself, or another program answered
        ├── NotFound    the source was read, and has no such object
        └── Unusable    the source cannot be read: unreachable, credentials refused, damaged

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
    """The ids of Slack users that stand in the error's text."""

    def __init__(self, message: Prose, *, hint: Prose = "", example: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.advice = hint
        self.example = example

    @property
    def hint(self) -> Prose:
        """The error's advice, with the example behind it."""
        return spaced(self.advice, Text("error.example", example=self.example)) if self.example else self.advice

    def __str__(self) -> str:
        return "\n".join(filter(None, map(in_english, (self.message, self.hint))))


class WrongValue(ValueError):  # noqa: N818  # what the person is told
    """A value that somebody wrote cannot be used; `text` says why, without repeating what may be a secret."""

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
    """The operating system's reason in an OSError, without the path; empty where it gives none."""
    return _SYSTEM.get(error.errno or 0) or error.strerror or ""


class UsageError(BotError):
    """The command, or a setting, makes no sense as given. `usage` and `more` are lines for a shell."""

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
    """No cluster of the settings has the name that was asked for."""

    def __init__(self, name: str, clusters: Collection[str]) -> None:
        shown = repr(name[:_SHOWN_NAME])
        names = ", ".join(sorted(clusters))
        hint = Text("error.no-cluster-hint", names=names) if clusters else Text("error.no-clusters-hint")
        super().__init__(Text("error.no-cluster", cluster=shown), hint=hint)


def not_understood(word: str, known: Collection[str]) -> Text:
    """The text that a word is none of the known ones, with the known word that it looks like."""
    if near := difflib.get_close_matches(word.casefold(), known, n=1):
        return Text("error-command.not-understood-did-you-mean", word=repr(word), near=repr(near[0]))
    return Text("error-command.not-understood", word=repr(word))


class NotAllowed(BotError):  # noqa: N818  # what the person is told
    """The person may not do what they asked for; nothing was done."""

    exit_code = 4


class SourceError(BotError):
    """A source, such as a cluster, Prometheus or a recording, could not be read; a playbook turns it into a `Gap`."""

    exit_code = 3


class Troubled(SourceError):  # noqa: N818  # what the person is told
    """The source answered with an error of its own, or something else answered in the source's place."""


class NotFound(SourceError):  # noqa: N818  # the API's own word
    """The source answered, and the object that was asked for does not exist."""


class Unusable(SourceError):  # noqa: N818  # what the person is told
    """Nothing of the source can be read. Where the question's subject is in it, there is no report."""


REQUEST_FIELD = "request_id"
"""The name of the request's id in log lines."""
_ID: ContextVar[str] = ContextVar(REQUEST_FIELD, default="")


def begin_request(key: str) -> None:
    """Sets the request's id of the current task and the tasks it starts; equal keys give equal ids, in any replica."""
    _ID.set(_id_of(key))


@contextmanager
def about_request(key: str) -> Generator[None]:
    """Sets the request's id by the key inside the context, unless a larger request is under way already."""
    token = _ID.set(_ID.get() or _id_of(key))
    try:
        yield
    finally:
        _ID.reset(token)


def request_id() -> str:
    """The request's id, 8 hexadecimal digits; empty for routine work, such as a watch."""
    return _ID.get()


def _id_of(key: str) -> str:
    return f"{zlib.crc32(key.encode(errors='replace')):08x}"


class Bug(BotError):  # noqa: N818  # what the person is told
    """An error that must not happen: a bug of this program."""


@contextmanager
def bugs_as_errors(known: set[str] | None = None) -> Generator[None]:
    """Turns any Exception inside the context into `Bug`, except a BotError; interrupts and cancellation pass. The
    traceback goes to the log, for work that is repeated only where `known` does not hold the bug yet; the person is
    told the place, and the id in the log.
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
