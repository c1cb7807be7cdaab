"""Writes what every case gives now as what is expected: `python -m tests.update_cases [VERB …]`, then read the diff."""

import sys

from bot.render.as_json import as_json
from tests.cases_support import CASES, ask, questions, scenarios


def main(verbs: list[str]) -> None:
    """Rewrite every expected report of these verbs, or of all."""
    for question in questions():
        if not verbs or question.verb in verbs:
            question.expected.parent.mkdir(exist_ok=True)
            question.expected.write_text(as_json(question.ask()), encoding="utf-8")
    for scenario in scenarios() if not verbs or "why" in verbs else ():
        scenario.expected.parent.mkdir(exist_ok=True)
        report = ask(CASES / scenario.version / "recording.tar.gz", scenario.pod)
        scenario.expected.write_text(as_json(report), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
