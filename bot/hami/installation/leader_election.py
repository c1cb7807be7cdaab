"""Whether a replica of HAMi's scheduler has to hold the lease to serve, and whether one does.

Source: HAMi v2.8 cmd/scheduler and charts/hami: the extender serves only where its own kube-scheduler holds the lease.
"""

from datetime import datetime, timedelta

from bot.hami.installation.install import Install, kube_scheduler_of
from bot.hami.version import Version
from bot.kube.hami_pods import read_flags
from bot.kube.models import Lease
from bot.kube.times import parse_time

LEADS_SINCE = Version(2, 8, 0)
"""From here on only the replica that holds the lease serves."""
_LEASE_GRACE = timedelta(seconds=60)
"""Beyond the lease's own duration: objects of one snapshot are not read at the same instant."""


def extender_waits_for_lease(install: Install) -> bool:
    """Whether the extender serves only where its kube-scheduler leads."""
    known = install.version is not None and install.version.version >= LEADS_SINCE
    return known and install.flags.get("leader-elect") == "true"


def kube_scheduler_waits_for_lease(install: Install) -> bool:
    """Whether the kube-scheduler beside it is told to by its own flag; a configuration file may do so as well."""
    container = kube_scheduler_of(install)
    words = [*(container.command or ()), *(container.args or ())] if container else []
    return read_flags(words).get("leader-elect") == "true"


def lease_is_stale(lease: Lease, now: datetime) -> bool:
    """Whether nobody holds it, or its holder stopped renewing it."""
    renewed = parse_time(lease.spec.renew_time)
    duration = timedelta(seconds=lease.spec.lease_duration_seconds or 15)
    return not lease.spec.holder_identity or (renewed is not None and now - renewed > duration + _LEASE_GRACE)


def lacks_leader(install: Install, now: datetime) -> bool:
    """Whether a lease is needed and nobody holds it. One that could not be read looks like one that is not there."""
    if install.lease is None:
        return extender_waits_for_lease(install)
    needed = extender_waits_for_lease(install) or kube_scheduler_waits_for_lease(install)
    return needed and lease_is_stale(install.lease, now)
