"""What a rule is, and the order in which rules speak.

A rule looks at a scene and gives findings, or nothing. It is declared with the codes that it may give and with the
sources that have to have been read; without these it keeps silent. A table of stages says who speaks when; it reads as
the decision tree of the debugging guide. A rule that stands in no table is declared next to one of its module that
does, and speaks wherever that one speaks. There are no priorities beside that order.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import update_wrapper
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from bot.finding_codes import Code
from bot.report import Finding


class Scene(Protocol):
    """What was read about one question."""

    def was_read(self, source: str) -> bool:
        """Whether the source was read; rules conclude nothing from what could not be read."""
        ...


S = TypeVar("S", bound=Scene)
S_contra = TypeVar("S_contra", bound=Scene, contravariant=True)


class Rule(Generic[S_contra]):
    """A rule: called with a scene it gives findings, none if a source that it needs was not read. `together` are the
    rules that speak where this one stands in a table, in their order.
    """

    def __init__(
        self, tell: Callable[[S_contra], Iterable[Finding]], codes: Collection[Code], reads: Collection[str]
    ) -> None:
        self.tell = tell
        self.codes = codes
        self.reads = reads
        self.together: tuple[Rule[S_contra], ...] = (self,)
        update_wrapper(self, tell)

    def __call__(self, scene: S_contra) -> list[Finding]:
        return list(self.tell(scene)) if all(map(scene.was_read, self.reads)) else []


def rule(
    *codes: Code, reads: Collection[str] = (), ahead_of: Rule[Any] | None = None, after: Rule[Any] | None = None
) -> Callable[[Callable[[S], Iterable[Finding]]], Rule[S]]:
    """Declares a function as a rule: the codes that it may give, and the sources (`reads`) that it needs to speak. With
    `ahead_of` or `after` (a rule of the same module that stands in a table) it speaks directly before or after that.
    """

    def declare(tell: Callable[[S], Iterable[Finding]]) -> Rule[S]:
        made = Rule(tell, codes, reads)
        for near, place in ((ahead_of, 0), (after, 1)):
            if near is not None:
                if near.tell.__module__ != tell.__module__:
                    raise TypeError(f"{tell.__name__} stands in another module than {near.tell.__name__}")
                at = near.together.index(near) + place
                near.together = (*near.together[:at], made, *near.together[at:])
        return made

    return declare


class FindingsSoFar(NamedTuple):
    """The findings so far; `ended` is the name of the stage that ended the search, empty while it goes on."""

    findings: list[Finding]
    ended: str = ""

    @property
    def codes(self) -> set[Code]:
        return {finding.code for finding in self.findings}


Place = Callable[[FindingsSoFar, Finding], bool]


def behind(_: FindingsSoFar, __: Finding) -> bool:
    """For `Stage.leads`: no finding of the stage comes before those of earlier stages."""
    return False


def before(_: FindingsSoFar, __: Finding) -> bool:
    """For `Stage.leads`: every finding of the stage comes before those of earlier stages."""
    return True


def of_a_new_code(told: FindingsSoFar, finding: Finding) -> bool:
    """For `Stage.keeps`: a finding stays if no earlier finding has its code."""
    return finding.code not in told.codes


def always(_: Scene, __: FindingsSoFar) -> bool:
    """For `Stage.when`: the stage speaks whatever was found before."""
    return True


class Stage(Generic[S]):
    """Rules that speak together.

    `either`: the first of them that speaks is enough. `ends`: once one of them spoke, the search is over, and only
    stages `beside` it speak. `when` asks the scene and the findings so far whether the stage speaks at all, `keeps`
    which of its findings stay, and `leads` which of those come before the earlier ones.
    """

    def __init__(
        self,
        name: str,
        *rules: Rule[S],
        either: bool = False,
        ends: bool = False,
        beside: bool = False,
        when: Callable[[S, FindingsSoFar], bool] = always,
        keeps: Place = before,
        leads: Place = behind,
    ) -> None:
        self.name = name
        self.rules = tuple(each for stands in rules for each in stands.together)
        self.either = either
        self.ends = ends
        self.beside = beside
        self.when = when
        self.keeps = keeps
        self.leads = leads

    def tell(self, scene: S, told: FindingsSoFar) -> FindingsSoFar:
        """Adds the findings of this stage to those so far."""
        if (told.ended and not self.beside) or not self.when(scene, told):
            return told
        found: list[Finding] = []
        for speaks in self.rules:
            found += (finding for finding in speaks(scene) if self.keeps(told, finding))
            if self.either and found:
                break
        first = [finding for finding in found if self.leads(told, finding)]
        rest = [finding for finding in found if finding not in first]
        ended = told.ended or (self.name if self.ends and found else "")
        return FindingsSoFar([*first, *told.findings, *rest], ended)


def run(stages: Sequence[Stage[S]], scene: S) -> FindingsSoFar:
    """The findings of the rules about the scene, stage by stage."""
    told = FindingsSoFar([])
    for stage in stages:
        told = stage.tell(scene, told)
    return told
