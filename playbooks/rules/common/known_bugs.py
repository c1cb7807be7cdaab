"""To upgrade HAMi, where a bug that a newer release does not have can be behind a finding."""

from collections.abc import Iterable

from msgspec import structs

from bot.hami.installation.install import Install
from bot.hami.installation.known_bugs import bug_behind
from bot.report import Finding, step
from bot.texts import Text, in_english
from playbooks.quotes import kubectl


def with_upgrades(findings: Iterable[Finding], install: Install) -> list[Finding]:
    """The same findings; a step to a release without the bug comes third, after what helps at once."""
    return [_with_upgrade(finding, install) for finding in findings]


def _with_upgrade(finding: Finding, install: Install) -> Finding:
    seen = install.version
    quotes = [in_english(finding.text), *(evidence.quote for evidence in finding.evidence)]
    bug = bug_behind(finding.code, quotes, seen.version if seen else None)
    if bug is None or seen is None or install.deployment is None:
        return finding
    why = bug.why
    label = Text("known-bug.upgrade", fixed=bug.fixed, version=seen.version, why=why, threads=", ".join(bug.threads))
    path = "jsonpath={.spec.template.spec.containers[*].image}"
    look = kubectl("-n", install.namespace, "get", "deployment", install.deployment.name, "-o", path)
    first, rest = finding.next_actions[:2], finding.next_actions[2:]
    return structs.replace(finding, next_actions=(*first, step(label, look), *rest))
