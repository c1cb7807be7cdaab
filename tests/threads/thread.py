"""A public thread in which a user reports an incident: its situation as a small cluster, and what the bot says."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from bot.report import Report
from tests.incidents_support import Incident, incidents
from tests.playbooks.world import Object, answer, record

Grade = Literal["named", "right way", "not visible", "missed"]
"""The first finding names the cause; it is true and leads there; neither objects nor logs show the cause; or they do,
and the bot does not say it.
"""

_REPOSITORIES = {
    "HAMi": "Project-HAMi/HAMi",
    "HAMi-core": "Project-HAMi/HAMi-core",
    "ascend-device-plugin": "Project-HAMi/ascend-device-plugin",
    "dcu-vgpu-device-plugin": "Project-HAMi/dcu-vgpu-device-plugin",
    "volcano-vgpu-device-plugin": "Project-HAMi/volcano-vgpu-device-plugin",
}


class Scene(NamedTuple):
    """A cluster and the question. `about` is the pod or the workload; only `why` takes one.

    `recorded` goes to `tests.playbooks.world.record`: `logs` and `metrics` of the extender, `others` for more logs.
    """

    objects: Sequence[Object]
    about: str = "ml/wl"
    verb: str = "why"
    recorded: Mapping[str, Any] = {}


class Thread(NamedTuple):
    """`name` is `HAMi#1429`; `scene` is built here, or the name of a folder under `tests/incidents/`.

    `says` stands in the first finding's claim. `because` is why the grade is what it is.
    """

    name: str
    symptom: str
    code: str
    because: str
    scene: Scene | str
    says: str = ""
    grade: Grade = "named"

    @property
    def link(self) -> str:
        """Where the thread can be read."""
        project, _, number = self.name.partition("#")
        return f"https://github.com/{_REPOSITORIES.get(project, project)}/issues/{number}"

    @property
    def verb(self) -> str:
        """The question that is asked."""
        return _incident(self.scene).verb if isinstance(self.scene, str) else self.scene.verb

    def ask(self, folder: Path) -> Report:
        """The report on its situation, with the right to read the pods' own logs."""
        if isinstance(self.scene, str):
            return _incident(self.scene).ask()
        path = record(folder, self.scene.objects, **self.scene.recorded)
        words = {"pod": self.scene.about} if self.scene.verb == "why" else {}
        return answer(self.scene.verb, path, {"workload_logs": True}, **words)


def _incident(name: str) -> Incident:
    return next(incident for incident in incidents() if incident.name == name)
