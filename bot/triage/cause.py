"""Why alerts fire: what is the same for all of them, so that they are one incident."""

import hashlib

import msgspec

from bot.report import Severity


class Cause(msgspec.Struct, frozen=True):
    """`signature` names the cause by structured facts (`playbooks._rules.signature`), or what stands for one.

    `code` is the finding's, empty where nothing was found; then `why_not` says why. `claim` is about `subject`
    (`ns/pod` or a node, empty if the alert named neither). `nodes` are those that the cause lies in.
    """

    signature: str
    code: str
    claim: str
    severity: Severity
    subject: str = ""
    nodes: tuple[str, ...] = ()
    why_not: str = ""


def unexplained(
    name: str, namespace: str, severity: Severity, claim: str, *, why_not: str = "", subject: str = ""
) -> Cause:
    """For alerts of which no cause was found: those of one name in one namespace are taken together."""
    facts = ("unexplained", name, namespace)
    signature = hashlib.sha256(msgspec.json.encode(facts)).hexdigest()[:16]
    return Cause(signature, "", claim, severity, subject, (), why_not)
