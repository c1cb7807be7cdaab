"""Every finding code, in one place: how it is proven, and what the rest of the bot does about it.

A new code is a section of `bot/texts/findings.toml`: what holds for all its findings (`proof = "node"`, the fields of
`CodeInfo`), then in both languages its `meaning`, its `fix` unless it needs none, and what its findings say.
`python -m tests.update_docs` then writes `Code` and `CODES` below, and the documentation's table.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple, cast

from bot.texts import Text

Proof = Literal[
    "change", "filter", "fit", "install", "log", "node", "pod", "profile", "profiles", "quota", "read", "usage", "words"
]
"""How a code is proven."""
PROOFS: Mapping[Proof, Text] = {
    "filter": Text("code-proof.filter"),
    "words": Text("code-proof.words"),
    "pod": Text("code-proof.pod"),
    "node": Text("code-proof.node"),
    "install": Text("code-proof.install"),
    "quota": Text("code-proof.quota"),
    "fit": Text("code-proof.fit"),
    "log": Text("code-proof.log"),
    "change": Text("code-proof.change"),
    "profile": Text("code-proof.profile"),
    "profiles": Text("code-proof.profiles"),
    "read": Text("code-proof.read"),
    "usage": Text("code-proof.usage"),
}
"""The same in words."""


PendingClass = Literal["misconfigured", "capacity", "platform_fault", "retry", "unknown"]
"""Why a pod waits, for whoever looks at figures: who has to do something, or that nobody has."""

_BY_PROOF: Mapping[str, PendingClass] = {
    "filter": "capacity",
    "quota": "capacity",
    "fit": "capacity",
    "node": "platform_fault",
    "install": "platform_fault",
    "words": "platform_fault",
}


class CodeInfo(NamedTuple):
    """What holds for every finding of a code, as its section in `bot/texts/findings.toml` says.

    `of_the_pod`: the cause lies in the pod itself, so pods that say the same, or ask for the same, share it.
    `loses_node`: HAMi does not count on the nodes in scope. `watched_in`: the playbook in whose answer the watcher
    looks for it, to open a thread. `fix_first`: its own steps remove the cause and come before ways around it.
    `explains`: it can be why an alert fires. `harmless`: HAMi works all the same. `pending`: the class of pods that
    wait for it, where its proof does not tell.
    """

    proof: Proof
    of_the_pod: Literal["", "says", "asks"] = ""
    loses_node: bool = False
    watched_in: Literal["", "status", "nodes"] = ""
    fix_first: bool = False
    explains: bool = True
    harmless: bool = False
    pending: PendingClass | None = None

    @property
    def pending_class(self) -> PendingClass:
        """The class of pods that wait for it."""
        if self.pending:
            return self.pending
        return "misconfigured" if self.of_the_pod else _BY_PROOF.get(self.proof, "unknown")


# generated from bot/texts/findings.toml: python -m tests.update_docs
Code = Literal[
    "card-insufficient-memory",
    "card-insufficient-core",
    "card-time-slicing-exhausted",
    "card-compute-units-exhausted",
    "exclusive-device-conflict",
    "card-type-mismatch",
    "card-uuid-mismatch",
    "mode-not-fit",
    "card-not-healthy",
    "card-cordoned",
    "numa-not-fit",
    "mig-topology-infeasible",
    "custom-filter-rule",
    "node-insufficient-device",
    "allocated-cards-insufficient",
    "resource-quota-not-fit",
    "node-unfit-pod",
    "node-unregistered",
    "handshake-stale",
    "handshake-deleted",
    "handshake-time-zone",
    "node-lock-held",
    "node-lock-dangling",
    "node-lock-malformed",
    "filtering-failed",
    "binding-failed",
    "allocate-failed",
    "kubernetes-filter",
    "wrong-scheduler",
    "other-scheduler",
    "webhook-bypassed",
    "admission-denied",
    "scheduling-gated",
    "no-device-request",
    "resource-claim",
    "waiting-for-retry",
    "blocked-after-filter",
    "impossible-anywhere",
    "image-or-start-failure",
    "driver-not-loaded",
    "gpu-runtime-missing",
    "card-fault",
    "device-plugin-crash",
    "device-plugin-not-selected",
    "second-device-plugin",
    "gpu-start-failure",
    "hami-core-crash",
    "hami-core-hang",
    "hami-core-missing",
    "gpu-memory-limit",
    "limit-not-enforced",
    "running",
    "succeeded",
    "terminating",
    "not-found",
    "not-enough-evidence",
    "bot-blind",
    "placed",
    "not-in-log",
    "log-verbosity",
    "fits",
    "fits-nowhere",
    "quota",
    "quota-exceeded",
    "quota-near-limit",
    "quota-not-enforced",
    "quota-ambiguous",
    "quota-differs",
    "capacity",
    "stranded-capacity",
    "nodes-healthy",
    "device-plugin-missing",
    "device-plugin-not-ready",
    "device-plugin-restarting",
    "duplicate-card-uuid",
    "allocatable-mismatch",
    "card-cordon-ignored",
    "node-not-ready",
    "node-pressure",
    "node-cordoned",
    "healthy",
    "hami-not-installed",
    "scheduler-down",
    "scheduler-no-leader",
    "scheduler-degraded",
    "scheduler-panic",
    "scheduler-ledger-stale",
    "registration-ignored",
    "scheduler-leader-mismatch",
    "scheduler-forbidden",
    "rollout-stuck",
    "webhook-missing",
    "webhook-unreachable",
    "webhook-untrusted",
    "extender-misconfigured",
    "dra-mode",
    "dra-mixed",
    "resource-unknown",
    "volcano-scheduled",
    "kubernetes-unsupported",
    "plugin-missing",
    "plugin-not-ready",
    "version-mismatch",
    "verbosity-high",
    "pprof-exposed",
    "clock-skew",
    "change-planned",
    "change-open",
    "no-change-open",
    "already-enough",
    "change-refused",
    "change-never-raised",
    "change-reverted",
    "change-reverted-by-another",
    "change-drifted",
    "change-container-gone",
    "change-replaced",
    "change-unreadable",
    "profile-taken",
    "profile-idle",
    "profile-few-samples",
    "profile-empty",
    "profile-gc-background",
    "profile-gc-assist",
    "profile-allocation",
    "profile-holder",
    "profile-json",
    "profile-reflection",
    "profile-regexp",
    "profile-regexp-compile",
    "profile-logging",
    "profile-list-storm",
    "profile-cgo",
    "profile-syscalls",
    "profile-scheduler",
    "profile-locks",
    "profile-lock-contention",
    "profile-runtime-locks",
    "profile-rate-limiter",
    "profile-goroutine-crowd",
    "profile-goroutine-leak",
    "profile-changed",
    "profile-gone",
    "profile-new",
    "profile-gc-changed",
    "profile-no-change",
    "profile-unlike-program",
    "profile-unlike-period",
    "profile-unlike-duration",
    "profile-unlike-since-start",
    "profiles-kept",
    "profiling-off",
    "nothing-pending",
    "tuning-advice",
    "scheduling-latency",
    "idle-holder",
    "tuning-effect",
    "own-finding",
]

CODES: Mapping[Code, CodeInfo] = {
    "card-insufficient-memory": CodeInfo("filter"),
    "card-insufficient-core": CodeInfo("filter"),
    "card-time-slicing-exhausted": CodeInfo("filter"),
    "card-compute-units-exhausted": CodeInfo("filter"),
    "exclusive-device-conflict": CodeInfo("filter"),
    "card-type-mismatch": CodeInfo("filter", of_the_pod="says"),
    "card-uuid-mismatch": CodeInfo("filter", of_the_pod="says"),
    "mode-not-fit": CodeInfo("filter", of_the_pod="says"),
    "card-not-healthy": CodeInfo("filter", pending="platform_fault"),
    "card-cordoned": CodeInfo("filter", fix_first=True, pending="platform_fault"),
    "numa-not-fit": CodeInfo("filter"),
    "mig-topology-infeasible": CodeInfo("filter"),
    "custom-filter-rule": CodeInfo("filter"),
    "node-insufficient-device": CodeInfo("filter"),
    "allocated-cards-insufficient": CodeInfo("filter"),
    "resource-quota-not-fit": CodeInfo("quota"),
    "node-unfit-pod": CodeInfo("filter"),
    "node-unregistered": CodeInfo("node", loses_node=True, watched_in="nodes"),
    "handshake-stale": CodeInfo("node", loses_node=True, watched_in="nodes"),
    "handshake-deleted": CodeInfo("node", loses_node=True, watched_in="nodes"),
    "handshake-time-zone": CodeInfo("node"),
    "node-lock-held": CodeInfo("node", pending="retry"),
    "node-lock-dangling": CodeInfo("node", watched_in="nodes"),
    "node-lock-malformed": CodeInfo("node", watched_in="nodes"),
    "filtering-failed": CodeInfo("words"),
    "binding-failed": CodeInfo("words"),
    "allocate-failed": CodeInfo("pod", pending="platform_fault"),
    "kubernetes-filter": CodeInfo("words", fix_first=True, pending="misconfigured"),
    "wrong-scheduler": CodeInfo("pod", of_the_pod="says"),
    "other-scheduler": CodeInfo("pod", of_the_pod="says", explains=False, pending="unknown"),
    "webhook-bypassed": CodeInfo("pod", of_the_pod="says"),
    "admission-denied": CodeInfo("pod", pending="misconfigured"),
    "scheduling-gated": CodeInfo("pod", of_the_pod="says"),
    "no-device-request": CodeInfo("pod", pending="misconfigured"),
    "resource-claim": CodeInfo("pod", pending="misconfigured"),
    "waiting-for-retry": CodeInfo("fit", pending="retry"),
    "blocked-after-filter": CodeInfo("words"),
    "impossible-anywhere": CodeInfo("fit", of_the_pod="asks"),
    "image-or-start-failure": CodeInfo("pod", pending="misconfigured"),
    "driver-not-loaded": CodeInfo("node", watched_in="nodes", fix_first=True),
    "gpu-runtime-missing": CodeInfo("node", watched_in="nodes", fix_first=True),
    "card-fault": CodeInfo("node", watched_in="nodes", fix_first=True),
    "device-plugin-crash": CodeInfo("node", watched_in="nodes", fix_first=True),
    "device-plugin-not-selected": CodeInfo("node", watched_in="nodes", fix_first=True),
    "second-device-plugin": CodeInfo("node", watched_in="nodes", fix_first=True),
    "gpu-start-failure": CodeInfo("pod"),
    "hami-core-crash": CodeInfo("pod"),
    "hami-core-hang": CodeInfo("pod"),
    "hami-core-missing": CodeInfo("pod"),
    "gpu-memory-limit": CodeInfo("pod"),
    "limit-not-enforced": CodeInfo("pod"),
    "running": CodeInfo("pod"),
    "succeeded": CodeInfo("pod"),
    "terminating": CodeInfo("pod"),
    "not-found": CodeInfo("read", explains=False),
    "not-enough-evidence": CodeInfo("read", explains=False),
    "bot-blind": CodeInfo("read", explains=False, harmless=True),
    "placed": CodeInfo("log"),
    "not-in-log": CodeInfo("log"),
    "log-verbosity": CodeInfo("log"),
    "fits": CodeInfo("fit"),
    "fits-nowhere": CodeInfo("fit"),
    "quota": CodeInfo("quota"),
    "quota-exceeded": CodeInfo("quota"),
    "quota-near-limit": CodeInfo("quota"),
    "quota-not-enforced": CodeInfo("quota"),
    "quota-ambiguous": CodeInfo("quota"),
    "quota-differs": CodeInfo("quota"),
    "capacity": CodeInfo("node"),
    "stranded-capacity": CodeInfo("node"),
    "nodes-healthy": CodeInfo("node"),
    "device-plugin-missing": CodeInfo("node"),
    "device-plugin-not-ready": CodeInfo("node"),
    "device-plugin-restarting": CodeInfo("node"),
    "duplicate-card-uuid": CodeInfo("node"),
    "allocatable-mismatch": CodeInfo("node"),
    "card-cordon-ignored": CodeInfo("node"),
    "node-not-ready": CodeInfo("node"),
    "node-pressure": CodeInfo("node"),
    "node-cordoned": CodeInfo("node"),
    "healthy": CodeInfo("install"),
    "hami-not-installed": CodeInfo("install", explains=False, pending="unknown"),
    "scheduler-down": CodeInfo("install", watched_in="status"),
    "scheduler-no-leader": CodeInfo("install", watched_in="status"),
    "scheduler-degraded": CodeInfo("install"),
    "scheduler-panic": CodeInfo("install", watched_in="status"),
    "scheduler-ledger-stale": CodeInfo("install", watched_in="status"),
    "registration-ignored": CodeInfo("install", loses_node=True),
    "scheduler-leader-mismatch": CodeInfo("install"),
    "scheduler-forbidden": CodeInfo("install"),
    "rollout-stuck": CodeInfo("install"),
    "webhook-missing": CodeInfo("install"),
    "webhook-unreachable": CodeInfo("install"),
    "webhook-untrusted": CodeInfo("install"),
    "extender-misconfigured": CodeInfo("install"),
    "dra-mode": CodeInfo("install"),
    "dra-mixed": CodeInfo("install", watched_in="status"),
    "resource-unknown": CodeInfo("pod", of_the_pod="says"),
    "volcano-scheduled": CodeInfo("pod", of_the_pod="says"),
    "kubernetes-unsupported": CodeInfo("install", harmless=True),
    "plugin-missing": CodeInfo("install"),
    "plugin-not-ready": CodeInfo("install"),
    "version-mismatch": CodeInfo("install"),
    "verbosity-high": CodeInfo("install", harmless=True),
    "pprof-exposed": CodeInfo("install", harmless=True),
    "clock-skew": CodeInfo("install", harmless=True),
    "change-planned": CodeInfo("change"),
    "change-open": CodeInfo("change", harmless=True),
    "no-change-open": CodeInfo("change"),
    "already-enough": CodeInfo("change"),
    "change-refused": CodeInfo("change"),
    "change-never-raised": CodeInfo("change"),
    "change-reverted": CodeInfo("change"),
    "change-reverted-by-another": CodeInfo("change"),
    "change-drifted": CodeInfo("change"),
    "change-container-gone": CodeInfo("change"),
    "change-replaced": CodeInfo("change"),
    "change-unreadable": CodeInfo("change", harmless=True),
    "profile-taken": CodeInfo("profile"),
    "profile-idle": CodeInfo("profile"),
    "profile-few-samples": CodeInfo("profile"),
    "profile-empty": CodeInfo("profile"),
    "profile-gc-background": CodeInfo("profile"),
    "profile-gc-assist": CodeInfo("profile"),
    "profile-allocation": CodeInfo("profile"),
    "profile-holder": CodeInfo("profile"),
    "profile-json": CodeInfo("profile"),
    "profile-reflection": CodeInfo("profile"),
    "profile-regexp": CodeInfo("profile"),
    "profile-regexp-compile": CodeInfo("profile"),
    "profile-logging": CodeInfo("profile"),
    "profile-list-storm": CodeInfo("profile"),
    "profile-cgo": CodeInfo("profile"),
    "profile-syscalls": CodeInfo("profile"),
    "profile-scheduler": CodeInfo("profile"),
    "profile-locks": CodeInfo("profile"),
    "profile-lock-contention": CodeInfo("profile"),
    "profile-runtime-locks": CodeInfo("profile"),
    "profile-rate-limiter": CodeInfo("profile"),
    "profile-goroutine-crowd": CodeInfo("profile"),
    "profile-goroutine-leak": CodeInfo("profiles"),
    "profile-changed": CodeInfo("profiles"),
    "profile-gone": CodeInfo("profiles"),
    "profile-new": CodeInfo("profiles"),
    "profile-gc-changed": CodeInfo("profiles"),
    "profile-no-change": CodeInfo("profiles"),
    "profile-unlike-program": CodeInfo("profiles"),
    "profile-unlike-period": CodeInfo("profiles"),
    "profile-unlike-duration": CodeInfo("profiles"),
    "profile-unlike-since-start": CodeInfo("profiles"),
    "profiles-kept": CodeInfo("read"),
    "profiling-off": CodeInfo("install"),
    "nothing-pending": CodeInfo("read"),
    "tuning-advice": CodeInfo("usage", explains=False),
    "scheduling-latency": CodeInfo("log", explains=False),
    "idle-holder": CodeInfo("usage", explains=False),
    "tuning-effect": CodeInfo("usage", explains=False),
    "own-finding": CodeInfo("read", explains=False),
}
# end

_KNOWN: Mapping[str, CodeInfo] = dict(CODES.items())


def as_code(text: str) -> Code:
    """The text as a code. An unknown one is a bug and raises KeyError."""
    _KNOWN[text]
    return cast("Code", text)


def about(text: str) -> CodeInfo | None:
    """What is known of a code; None for one of another version of the bot, as a stored cause may have."""
    return _KNOWN.get(text)


def words_of(code: str, what: Literal["meaning", "fix"]) -> Text:
    """What the code means, or what usually helps, of which some codes have no text."""
    return Text(f"{code}.{what}")


def watched_in(verb: str) -> frozenset[str]:
    """The codes that open a thread where that playbook gives them."""
    return frozenset(code for code, entry in CODES.items() if entry.watched_in == verb)


LOSES_NODE = frozenset[str](code for code, entry in CODES.items() if entry.loses_node)
