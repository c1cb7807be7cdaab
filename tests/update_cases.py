"""Writes what every case gives now as what is expected: `python -m tests.update_cases`, then read the diff."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from bot.report import as_json
from tests import vendor_worlds
from tests.cases_support import CASES, VERSIONS, gist, in_full, questions, scenarios
from tests.dense_json import dense_json


def main() -> None:
    """Rewrite the gist of every answer, and one whole report of each verb."""
    asked = [*questions(), *(scenario.question for scenario in scenarios())]
    for version in VERSIONS:
        answers = {
            f"{question.verb} {question.name}": gist(question.ask())
            for question in asked
            if question.version == version
        }
        (CASES / version / "answers.json").write_text(dense_json(answers), encoding="utf-8")
    with TemporaryDirectory() as folder:
        told = {asked.name: gist(asked.ask(Path(folder))) for asked in vendor_worlds.asked()}
    (vendor_worlds.FOLDER / "answers.json").write_text(dense_json(told), encoding="utf-8")
    for verb, question in in_full().items():
        (CASES / "reports" / f"{verb}.json").write_text(
            dense_json(json.loads(as_json(question.ask()))), encoding="utf-8"
        )


if __name__ == "__main__":
    main()
