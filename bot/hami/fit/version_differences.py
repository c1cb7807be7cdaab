"""A table of where HAMi's versions decide differently.

Source: pkg/scheduler/score.go, pkg/scheduler/policy/gpu_policy.go, pkg/device/nvidia/device.go at v2.5.1, v2.6.1,
v2.7.1, v2.8.0, v2.9.0 and v2.10.0.
"""

from functools import lru_cache
from typing import Literal

import msgspec

from bot.hami.version import Version

NEWEST_READ = Version(2, 10, 0)


class Rules(msgspec.Struct, frozen=True):
    """What the filter of one HAMi version does. Each field says what is true when it is set."""

    explains: bool
    """The filter gives reason codes with counts (2.6); before, free text in the log."""
    only_own_type: bool
    """GPUs of other vendors are left out of the scan and of the denominator (2.7)."""
    health: bool
    """Unhealthy GPUs are refused (2.7)."""
    quota: Literal["none", "container", "pod"]
    """What a quota is held against: nothing, this container (2.7), the pod so far (2.8)."""
    topology: bool
    """The filter knows the policy topology-aware (2.7)."""
    score_includes_request: bool
    """The order of GPUs depends on the request too (up to 2.8)."""
    merges_quotas: bool
    """Of several quotas in a namespace the smallest limit holds; one with scopes limits nothing
    (2.11, by its notes)."""
    modern: bool
    """The filter is that of 2.10: cordon, mutex, weights, lists of policies, trimmed annotation lists, MIG by profiles,
    init containers judged apart, counts of GPUs (not of reasons), parts sorted, quota 0 blocks."""


@lru_cache(maxsize=32)
def rules_of(version: Version) -> Rules:
    """The filter's rules in this version of HAMi; a version newer than `NEWEST_READ` is taken to be like that one."""
    return Rules(
        explains=version >= (2, 6),
        only_own_type=version >= (2, 7),
        health=version >= (2, 7),
        quota="none" if version < (2, 7) else "container" if version < (2, 8) else "pod",
        topology=version >= (2, 7),
        score_includes_request=version < (2, 9),
        merges_quotas=version >= (2, 11),
        modern=version >= (2, 10),
    )
