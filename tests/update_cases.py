"""Writes what every case gives now as what is expected: `python -m tests.update_cases`, then read the diff."""

from bot.render.as_json import as_json
from tests.cases_support import CASES, ask, scenarios


def main() -> None:
    """Rewrite every expected report."""
    for scenario in scenarios():
        scenario.expected.parent.mkdir(exist_ok=True)
        report = ask(CASES / scenario.version / "recording.tar.gz", scenario.pod)
        scenario.expected.write_text(as_json(report), encoding="utf-8")


if __name__ == "__main__":
    main()
