"""A playbook of a team's own, asked in Slack."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from playbooks.own import discovery
from tests.own_playbooks import ENDS, WORKS
from tests.slack.bot import POD, VERDICT, Here, played

pytestmark = pytest.mark.few(1)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    made = tmp_path / "own"
    made.mkdir()
    (made / "fine.py").write_text(WORKS + ENDS)
    (made / "broken.py").write_text("import no_such_module\n")
    discovery.use(lambda: made)
    yield made
    discovery.use(lambda: None)


@played()
async def test_its_answer_and_its_error_stand_in_slack_and_the_bot_goes_on(here: Here, *, folder: Path) -> None:
    for question, told in (("fine", "fine"), ("broken", "the playbook broken does not work: ModuleNotFoundError")):
        await here.command("ada", question, told)
    await here.command("ada", f"why {POD}", VERDICT)
