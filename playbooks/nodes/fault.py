"""One thing that is wrong with one node."""

from typing import NamedTuple

from bot.finding_codes import Code
from bot.report import Severity


class Fault(NamedTuple):
    """One thing wrong with one node. Nodes with the same `code`, `why` and `about` have it from the same cause."""

    code: Code
    why: str
    node: str
    severity: Severity = "warning"
    about: str = ""
    device: str = ""
    """The word of the other vendor's device that it is about; empty for the first vendor's, and for the node itself."""

    @property
    def cause(self) -> tuple[str, str, str, str]:
        return self.code, self.why, self.about, self.device
