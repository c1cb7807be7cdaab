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

Every message says what was tried and what came back; `hint` says what to do about it, with an example at its end.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Self

_SHOWN_NAME = 60


class BotError(Exception):
    """An error whose text is meant for the person who asked."""

    exit_code = 1
    people: tuple[str, ...] = ()
    """The users of Slack whose ids stand in it."""
    text: tuple[str, Mapping[str, object]] | None = None
    """Its name among the errors in `bot.texts`, for people of another language, with its values; see `worded`."""

    def __init__(self, message: str, *, hint: str = "", example: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.advice = hint
        self.example = example

    @property
    def hint(self) -> str:
        """The advice, and the example behind it."""
        return " ".join(filter(None, (self.advice, f"For example: {self.example}" if self.example else "")))

    def worded(self, name: str, **values: object) -> Self:
        """The same error with the name of its text; where there is a text `<name>-hint`, that is its hint."""
        self.text = name, values
        return self

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class UsageError(BotError):
    """The command as typed makes no sense; nothing was read. `usage` and `more` are lines for a shell."""

    exit_code = 2
    usage = ""
    more = ""

    def __str__(self) -> str:
        return "\n".join(filter(None, (self.message, self.usage, self.hint, self.more)))


class WhichCluster(UsageError):  # noqa: N818  # what the person is asked
    """The settings name several clusters, and nothing says which one is meant."""

    def __init__(self, clusters: Sequence[str]) -> None:
        names = ", ".join(clusters)
        hint = f"Configured clusters: {names}. Add one, for example: --cluster {clusters[0]}"
        super().__init__("there are several clusters, and the question names none", hint=hint)
        self.clusters = tuple(clusters)
        self.worded("which-cluster", names=names, one=clusters[0])


class NoSuchCluster(UsageError):  # noqa: N818  # what the person is told
    """None of the clusters that there are has that name."""

    def __init__(self, name: str, clusters: Collection[str]) -> None:
        shown = repr(name[:_SHOWN_NAME])
        if not clusters:
            hint = "No settings name any: name the settings file (--config) or a context of the kubeconfig (--context)"
            super().__init__(f"there is no cluster {shown}", hint=hint)
            self.worded("no-clusters", cluster=shown)
            return
        names = ", ".join(sorted(clusters))
        super().__init__(f"there is no cluster {shown}", hint=f"Configured clusters: {names}")
        self.worded("no-cluster", cluster=shown, names=names)


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
