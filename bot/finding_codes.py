"""Finding codes: how each is proven, and what the rest of the bot does about it.

A new code is a section of `bot/texts/findings.toml`: first what holds for all its findings (`proof = "node"`, the
fields of `CodeInfo`), then in both languages its `meaning`, its `fix` unless it needs none, and the claims of its
findings. `python -m tests.update_docs` then writes its name into `Code`, and the documentation's table.
"""

from collections.abc import Mapping
from typing import Literal, cast, get_args

import msgspec

from bot.texts import Text, facts

Proof = Literal[
    "change", "filter", "fit", "install", "log", "node", "pod", "profile", "profiles", "quota", "read", "usage", "words"
]
"""The kind of evidence that proves a finding of a code."""
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
"""Each kind of proof in words."""


PendingClass = Literal["misconfigured", "capacity", "platform_fault", "retry", "unknown"]
"""The class of reasons why a pod is pending, for metrics: who has to act, or that nobody has to."""

_BY_PROOF: Mapping[str, PendingClass] = {
    "filter": "capacity",
    "quota": "capacity",
    "fit": "capacity",
    "node": "platform_fault",
    "install": "platform_fault",
    "words": "platform_fault",
}


class CodeInfo(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The entry of a code, which holds for all its findings, from its section in `bot/texts/findings.toml`.
    `of_the_pod`: the cause lies in the pod itself, so pods that say the same, or ask for the same, share it.
    `loses_node`: HAMi does not count on the nodes in scope. `watched_in`: the playbook in whose answer the watcher
    looks for this code, to open a thread. `fix_first`: its own actions remove the cause and come before ways around it.
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
        """The class of pods that wait because of this code."""
        if self.pending:
            return self.pending
        return "misconfigured" if self.of_the_pod else _BY_PROOF.get(self.proof, "unknown")


Code = Literal[
    "card-insufficient-memory", "card-insufficient-core", "card-time-slicing-exhausted", "card-compute-units-exhausted",
    "exclusive-device-conflict", "card-type-mismatch", "card-uuid-mismatch", "mode-not-fit", "card-not-healthy",
    "card-cordoned", "numa-not-fit", "mig-topology-infeasible", "custom-filter-rule", "node-insufficient-device",
    "allocated-cards-insufficient", "resource-quota-not-fit", "node-unfit-pod", "node-unregistered", "handshake-stale",
    "handshake-deleted", "handshake-time-zone", "node-lock-held", "node-lock-dangling", "node-lock-malformed",
    "filtering-failed", "binding-failed", "allocate-failed", "kubernetes-filter", "wrong-scheduler", "other-scheduler",
    "unknown-policy", "webhook-bypassed", "admission-denied", "scheduling-gated", "no-device-request", "resource-claim",
    "waiting-for-retry", "blocked-after-filter", "impossible-anywhere", "image-or-start-failure", "driver-not-loaded",
    "gpu-runtime-missing", "card-fault", "device-plugin-crash", "device-plugin-not-selected", "second-device-plugin",
    "gpu-start-failure", "hami-core-crash", "hami-core-hang", "hami-core-missing", "gpu-memory-limit",
    "limit-not-enforced", "running", "succeeded", "terminating", "not-found", "not-enough-evidence", "bot-blind",
    "placed", "not-in-log", "log-verbosity", "fits", "fits-nowhere", "quota", "quota-exceeded", "quota-near-limit",
    "quota-not-enforced", "quota-ambiguous", "quota-differs", "capacity", "stranded-capacity", "nodes-healthy",
    "device-plugin-missing", "device-plugin-not-ready", "device-plugin-restarting", "duplicate-card-uuid",
    "allocatable-mismatch", "registered-otherwise", "card-cordon-ignored", "node-not-ready", "node-pressure",
    "node-cordoned", "healthy", "hami-not-installed", "scheduler-down", "scheduler-no-leader", "scheduler-degraded",
    "scheduler-panic", "scheduler-ledger-stale", "registration-ignored", "scheduler-leader-mismatch",
    "scheduler-forbidden", "rollout-stuck", "webhook-missing", "webhook-unreachable", "webhook-untrusted",
    "extender-misconfigured", "dra-mode", "dra-mixed", "resource-unknown", "volcano-scheduled",
    "kubernetes-unsupported", "plugin-missing", "plugin-not-ready", "version-mismatch", "verbosity-high",
    "pprof-exposed", "clock-skew", "change-planned", "change-open", "no-change-open", "already-enough",
    "change-refused", "change-never-raised", "change-reverted", "change-reverted-by-another", "change-drifted",
    "change-container-gone", "change-replaced", "change-unreadable", "profile-taken", "profile-idle",
    "profile-few-samples", "profile-empty", "profile-gc-background", "profile-gc-assist", "profile-allocation",
    "profile-holder", "profile-json", "profile-reflection", "profile-regexp", "profile-regexp-compile",
    "profile-logging", "profile-list-storm", "profile-cgo", "profile-syscalls", "profile-scheduler", "profile-locks",
    "profile-lock-contention", "profile-runtime-locks", "profile-rate-limiter", "profile-goroutine-crowd",
    "profile-goroutine-leak", "profile-changed", "profile-gone", "profile-new", "profile-gc-changed",
    "profile-no-change", "profile-unlike-program", "profile-unlike-period", "profile-unlike-duration",
    "profile-unlike-since-start", "profiles-kept", "profiling-off", "nothing-pending", "tuning-advice",
    "scheduling-latency", "idle-holder", "tuning-effect", "own-finding",
]  # fmt: skip
"""The names of all finding codes, which `python -m tests.update_docs` takes from `bot/texts/findings.toml`."""


CODES: Mapping[str, CodeInfo] = {code: msgspec.convert(facts(code), CodeInfo) for code in get_args(Code)}
"""The entry of each code, from `findings.toml`."""


def as_code(text: str) -> Code:
    """The text as a finding code. An unknown one is a bug and raises KeyError."""
    if text not in CODES:
        raise KeyError(text)
    return cast("Code", text)


def words_of(code: str, what: Literal["meaning", "fix"]) -> Text:
    """The text of a code's meaning, or of the usual fix, which some codes lack."""
    return Text(f"{code}.{what}")


def watched_in(verb: str) -> frozenset[str]:
    """The codes that open a thread when the watcher finds them in the answer of the playbook `verb`."""
    return frozenset(code for code, entry in CODES.items() if entry.watched_in == verb)


LOSES_NODE = frozenset[str](code for code, entry in CODES.items() if entry.loses_node)
