"""A playbook of a team's own, asked in Slack."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from playbooks.own import discovery
from tests.own_playbooks import ENDS, WORKS
from tests.slack.answering import played
from tests.slack.bot import POD, VERDICT, Here

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


def test_its_answer_and_its_error_stand_in_slack_and_the_bot_goes_on(tmp_path: Path, folder: Path) -> None:
    async def scene(here: Here) -> None:
        for question, told in (("fine", "fine"), ("broken", "the playbook broken does not work: ModuleNotFoundError")):
            await here.slack.command("ada", "gpu-oncall", question)
            await here.slack.wait_for(channel="gpu-oncall", containing=told, user="ada")
        await here.slack.command("ada", "gpu-oncall", f"why {POD}")
        await here.slack.wait_for(channel="gpu-oncall", containing=VERDICT, user="ada")

    played(tmp_path, scene)
