"""The published JSON Schema of a report, which every report of the tests follows."""

from functools import cache
from pathlib import Path

import msgspec
from jsonschema import Draft202012Validator

from bot.report import Report, as_json

PUBLISHED = Path(__file__).parent.parent / "docs" / "report.schema.json"


@cache
def validator() -> Draft202012Validator:
    """Of the file as it is published, compiled once for all tests."""
    return Draft202012Validator(msgspec.json.decode(PUBLISHED.read_bytes()))


def validated(report: Report) -> Report:
    """The report itself. Raises ValidationError where its JSON does not follow the published schema."""
    validator().validate(msgspec.json.decode(as_json(report)))
    return report
