"""One browser for all tests of the page."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.sandbox.page.support import BROWSERS, Chrome, find_browser, open_browser


@pytest.fixture(scope="session")
def chrome() -> Iterator[Chrome]:
    path = find_browser()
    if path is None:
        pytest.skip(f"none of {', '.join(BROWSERS)} is on the PATH")
    with asyncio.Runner() as runner:
        opened = open_browser(path)
        browser = runner.run(opened.__aenter__())
        try:
            yield Chrome(runner, browser)
        finally:
            runner.run(opened.__aexit__(None, None, None))
