"""A few inputs of every target of `make fuzz`, and every input that found something once."""

from itertools import islice

import pytest

from benchmarks.fuzz.__main__ import inputs_of
from benchmarks.fuzz.http import endpoints
from benchmarks.fuzz.targets import TARGETS, Target

_SOME = 10
_FOUND: tuple[tuple[str, bytes], ...] = ()


@pytest.mark.parametrize("target", TARGETS, ids=[target.name for target in TARGETS])
def test_a_changed_input_gets_an_answer_or_a_refusal(target: Target) -> None:
    for data in islice(inputs_of(target, seed=1), _SOME):
        target.send(data)


def test_a_changed_request_gets_no_server_error() -> None:
    with endpoints() as http:
        for data in islice(inputs_of(http, seed=1), _SOME):
            http.send(data)


def test_what_found_something_once_gets_an_answer_or_a_refusal_now() -> None:
    by_name = {target.name: target for target in TARGETS}
    for name, data in _FOUND:
        by_name[name].send(data)


def test_the_same_seed_makes_the_same_inputs() -> None:
    one, other = (list(islice(inputs_of(TARGETS[0], seed=1), _SOME)) for _ in range(2))
    assert one == other
