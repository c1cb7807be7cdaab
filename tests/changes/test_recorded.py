"""What a recording keeps of an open change: how to revert it, and no secret of the command line."""

import msgspec
import pytest

from bot.changes.record import KEY, read_record, write_record
from bot.kube.models import Workload
from bot.kube.recording.redact import MASK, redacted
from playbooks.rules.installation.install_settings import of_record
from tests.changes.records import OF_SCHEDULER


def annotation(text: str) -> str:
    """The annotation of a Deployment as a recording has it."""
    found = {"metadata": {"name": "hami-scheduler", "namespace": "hami-system", "annotations": {KEY: text}}}
    return redacted(msgspec.convert(found, Workload))["metadata"]["annotations"][KEY]


def test_a_secret_that_is_a_word_of_its_own_is_masked() -> None:
    record = msgspec.structs.replace(
        OF_SCHEDULER,
        words_before=("scheduler", "--token", "geheim", "-v=2"),
        words_after=("scheduler", "--token", "geheim", "-v=4"),
    )
    kept = annotation(write_record(record))
    assert "geheim" not in kept
    expected = msgspec.structs.replace(
        record,
        words_before=("scheduler", "--token", MASK, "-v=2"),
        words_after=("scheduler", "--token", MASK, "-v=4"),
    )
    assert read_record(kept) == expected


def test_a_report_quotes_no_secret_of_an_open_change() -> None:
    record = msgspec.structs.replace(OF_SCHEDULER, words_before=("scheduler", "--token", "geheim", "-v=2"))
    quoted = of_record("hami-system", "hami-scheduler", write_record(record)).quote
    assert "geheim" not in quoted
    assert f'"--token","{MASK}"' in quoted


@pytest.mark.parametrize("text", [write_record(OF_SCHEDULER), "{}", "[1", "no record", '{"from": [1, "a"], "to": {}}'])
def test_without_secrets_it_is_kept_as_it_is(text: str) -> None:
    assert annotation(text) == text
