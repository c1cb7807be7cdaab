"""Which node conditions say that a GPU is faulty, by who sets them."""

import pytest

from bot.kube.node_conditions import EMITTERS, is_about_gpus, reports_fault


@pytest.mark.parametrize(
    ("type_", "status", "reason", "emitter"),
    [
        ("GpuMemWatch", "True", "GpuMemWatchIsNotHealthy", "NVSentinel"),
        ("AcceleratedHardwareReady", "False", "NvidiaXID79Error", "EKS node monitoring agent"),
        ("GPUMissing", "True", "GPUMissing", "AKS node-problem-detector"),
        ("GPUXIDErrors", "True", "XIDErrors", "AKS node-problem-detector"),
        ("XidCriticalError", "True", '{"79":true}', "GKE device plugin"),
        ("NebiusGPUError", "True", "XID", "Nebius node-problem-detector"),
        ("GcmXidErrorsProblem", "True", "xid", "GCM health checks"),
    ],
)
def test_each_emitter_has_its_own_polarity(type_: str, status: str, reason: str, emitter: str) -> None:
    found = reports_fault(type_, status, reason)
    assert found is not None
    assert found.name == emitter
    assert reports_fault(type_, "False" if status == "True" else "True", reason) is None
    assert reports_fault(type_, "Unknown", reason) is None


def test_every_emitter_names_where_that_stands() -> None:
    assert all(emitter.source for emitter in EMITTERS)


@pytest.mark.parametrize(
    ("type_", "status", "reason"),
    [("GpuMemWatch", "True", "DCGM_FR_IMEX_UNHEALTHY"), ("AcceleratedHardwareReady", "False", "DCGMError")],
)
def test_what_means_something_else_is_no_fault(type_: str, status: str, reason: str) -> None:
    assert reports_fault(type_, status, reason) is None


@pytest.mark.parametrize("type_", ["Ready", "DiskPressure", "KernelDeadlock"])
def test_conditions_of_the_node_itself_are_not_about_gpus(type_: str) -> None:
    assert not is_about_gpus(type_)
    assert reports_fault(type_, "True") is None


def test_a_condition_about_gpus_that_nobody_documents_is_judged_by_nobody() -> None:
    assert is_about_gpus("OurGpuWatchdog")
    assert reports_fault("OurGpuWatchdog", "True") is None
