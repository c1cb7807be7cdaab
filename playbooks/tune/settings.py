"""`deviceCoreScaling` and `libCudaLogLevel`: judged by what is deployed.

HAMi takes a GPU for exclusive use where its cores are 100 in total (pkg/device/nvidia/device.go): with more than 100
registered, nobody gets a whole one. HAMi-core writes a line for each CUDA call at high levels.
"""

from bot.hami.installation.install import CORE_SCALING, chart_value
from bot.hami.version import Version
from bot.report import step
from bot.texts import Text
from playbooks import quotes
from playbooks.rules.common.prose import command
from playbooks.tune.deployed import gpu_setting
from playbooks.tune.facts import Facts
from playbooks.tune.pools import Pool
from playbooks.tune.rows import Advice, AdviceRow

_WHOLE = 100
_LIBRARY_SINCE = Version(2, 6, 0)
"""libCudaLogLevel and gpuCorePolicy are read since."""
_WARNINGS, _DEBUG_FROM = "1", 3


def advise_core_scaling(facts: Facts) -> list[Advice]:
    """A row for each pool that pods hold GPUs of."""
    return [_core_scaling(pool, facts) for pool in facts.pools if pool.held]


def _core_scaling(pool: Pool, facts: Facts) -> Advice:
    most = max(pool.gpus, key=lambda state: state.card.cores).card
    current = f"{most.cores / _WHOLE:g}"
    if most.cores <= _WHOLE:
        why = Text("tune.core-scaling-kept", cores=most.cores)
        return Advice(AdviceRow("core-scaling", "keep", pool.object, current, current, why), why)
    why = Text("tune.core-scaling-high", cores=most.cores)
    node = next(
        node for node in pool.nodes if any(most.uuid in text for text in (node.metadata.annotations or {}).values())
    )
    values = {"pool": pool.label, "risk": Text("tune.core-scaling-risk")}
    path = chart_value(CORE_SCALING, facts.install.install)
    how = Text("tune.set-pool", value=f"{path}=1", **values) if path else Text("tune.set-nodes", **values)
    actions = (
        step(how, ""),
        step(Text("tune.core-scaling-check"), command("gpus", "--node", node.name)),
    )
    claim = Text("tune.core-scaling-claim", pool=pool.label, current=current, why=why)
    row = AdviceRow("core-scaling", "lower", pool.object, current, "1", why)
    return Advice(row, claim, evidence=(quotes.of_card(node, most.uuid, whole=True),), actions=actions)


def advise_library_log(facts: Facts) -> list[Advice]:
    """One row; none before HAMi has the setting."""
    if before_library(facts):
        return []
    deployed = gpu_setting(facts, "libCudaLogLevel")
    if not deployed.proof:
        why = Text("tune.config-unread")
        return [Advice(AdviceRow("library-log", "cannot-tell", "", "", "", why), why)]
    current = deployed.value or Text("tune.default", value=_WARNINGS)
    if not deployed.value.isdecimal() or int(deployed.value) < _DEBUG_FROM:
        why = Text("tune.library-log-kept")
        return [Advice(AdviceRow("library-log", "keep", "", current, current, why), why)]
    why = Text("tune.library-log-high", level=deployed.value)
    value = f"devices.nvidia.libCudaLogLevel={_WARNINGS}"
    actions = (
        step(Text("tune.set", value=value, risk=Text("tune.library-log-risk")), ""),
        step(Text("tune.check-value"), deployed.proof[0].command),
    )
    claim = Text("tune.library-log-claim", current=current, wanted=_WARNINGS, why=why)
    row = AdviceRow("library-log", "lower", "", current, _WARNINGS, why)
    return [Advice(row, claim, evidence=deployed.proof, actions=actions)]


def before_library(facts: Facts) -> bool:
    """Whether this HAMi has neither libCudaLogLevel nor gpuCorePolicy."""
    version = facts.install.install.version
    return version is not None and version.version < _LIBRARY_SINCE
