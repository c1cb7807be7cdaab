"""Writes the messages that are expected: `python -m tests.slack.render.update_expected`, then read the diff."""

import json

from bot.slack.render.report import slack_json
from tests.dense_json import dense_json
from tests.render import SAY
from tests.slack.render import CHOSEN, EXPECTED, expected_file, report_of


def main() -> None:
    """Rewrite every expected message."""
    EXPECTED.mkdir(exist_ok=True)
    for scenario in CHOSEN:
        expected_file(scenario).write_text(
            dense_json(json.loads(slack_json(report_of(scenario), SAY))), encoding="utf-8"
        )


if __name__ == "__main__":
    main()
