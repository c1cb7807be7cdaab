"""Public threads of HAMi's users: the bot says first what `docs/incidents.md` claims."""

from pathlib import Path

import pytest

from tests.threads.every import THREADS
from tests.threads.thread import Thread
from tests.update_docs import INCIDENTS, incidents_page


@pytest.mark.parametrize("thread", THREADS, ids=[thread.name for thread in THREADS])
def test_the_first_finding_of_a_thread_is_the_one_that_the_page_names(tmp_path: Path, thread: Thread) -> None:
    first = thread.ask(tmp_path).findings[0]
    assert first.code == thread.code
    assert thread.says in first.claim


def test_the_page_is_written_from_the_threads() -> None:
    assert INCIDENTS.read_text(encoding="utf-8") == incidents_page(), "run: python -m tests.update_docs"


def test_a_thread_is_listed_once_and_says_why_it_has_its_grade() -> None:
    names = [thread.name for thread in THREADS]
    assert len(names) == len(set(names))
    assert all(thread.because for thread in THREADS)
