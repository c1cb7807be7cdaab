"""What is wrong with HAMi's installation, most important first: for `status`, the digest, the watcher and metrics."""

from collections.abc import Iterator

from bot.finding_codes import CODES
from bot.report import SEVERITIES, Finding, Gap, gap
from bot.texts import Text, sentences, together
from playbooks import quotes
from playbooks.gather.scheduler_process import unread
from playbooks.gather.webhook import WEBHOOK_NAME
from playbooks.quotes import of_object
from playbooks.rule import FindingsSoFar, Stage, before, of_a_new_code, rule, run
from playbooks.rules.admission.webhook import KIND, service_of, webhook
from playbooks.rules.common.findings import finding
from playbooks.rules.dra import claimed_by_webhook, given_by_claims, handed_out_twice, two_webhooks
from playbooks.rules.installation.extender import misconfigured
from playbooks.rules.installation.install_settings import (
    loud,
    mismatched,
    opened,
    profiles,
    refused,
    scheduler_release,
    stuck,
)
from playbooks.rules.installation.plugin_coverage import (
    nodes_unregistered,
    plugins_fail,
    plugins_missing,
    plugins_unready,
)
from playbooks.rules.installation.schedulers import leadership, past_crashes, search_for_scheduler, unwell
from playbooks.rules.installation.surroundings import SHOWS_HAMI, blind, too_old, wrong_clock
from playbooks.rules.nodes.sweep import looked_at
from playbooks.rules.waiting.panics import extender_ended_before, recovered
from playbooks.rules.waiting.stale_scheduler import counts_ghosts
from playbooks.scenes.cluster import InstallScene


@rule("not-found", reads=SHOWS_HAMI)
def no_scheduler(scene: InstallScene) -> Iterator[Finding]:
    """The finding that HAMi has no scheduler here, whatever other parts of it exist."""
    hook = scene.webhook.hook
    proofs = [of_object(KIND, hook.config, WEBHOOK_NAME, "{.webhooks[*].name}")] if hook else []
    proofs += [of_object("DaemonSet", plugin, plugin.name, "{.metadata.name}") for plugin in scene.plugins]
    claim, steps = Text("status.not-found"), [search_for_scheduler()]
    yield finding("not-found", claim, proofs=proofs, actions=steps)


@rule("healthy")
def healthy(scene: InstallScene) -> Iterator[Finding]:
    """The finding that HAMi works: its pods, leader, and device plugins, counted."""
    install, deployment, plugins = scene.install, scene.install.deployment, scene.plugins
    wanted = len(install.pods) if deployment is None or deployment.spec.replicas is None else deployment.spec.replicas
    ready = len(install.ready_pods) if install.pods else deployment.status.ready_replicas if deployment else 0
    text = Text("status.pods", ready=ready, wanted=wanted)
    release = scheduler_release(scene)
    proofs = [release.proof] if release else [quotes.of_pod_name(pod) for pod in install.pods[:1]]
    if install.leader is not None and install.lease is not None:
        text = together(text, Text("status.leader", pod=install.leader.name), by=", ")
        identity = install.lease.spec.holder_identity or ""
        proofs.append(of_object("Lease", install.lease, identity, "{.spec.holderIdentity}"))
    if plugins:
        ready = sum(plugin.status.number_ready for plugin in plugins)
        wanted = sum(plugin.status.desired_number_scheduled for plugin in plugins)
        text = together(text, Text("status.plugins", ready=ready, wanted=wanted), by=", ")
        proofs += [
            of_object("DaemonSet", plugin, str(plugin.status.number_ready), "{.status.numberReady}")
            for plugin in plugins
        ]
    partly = bool(gaps(scene))
    claim = Text("healthy.partly" if partly else "healthy.claim", version=str(scene.version or "?"), parts=text)
    if covered := sorted({pod.spec.node_name for pod in scene.plugin_pods if pod.spec.node_name}):
        claim = sentences(claim, *looked_at(scene.seen, scene.nodes, scene.questioned.sides, covered, None))
    yield finding("healthy", claim, "suspected" if partly else "confirmed", proofs=proofs, severity="info")


def _works(_: InstallScene, told: FindingsSoFar) -> bool:
    """Whether HAMi works, even if it is open to others: that is told too."""
    return all(result.severity == "info" or CODES[result.code].harmless for result in told.findings)


STATUS: tuple[Stage[InstallScene], ...] = (
    Stage(
        "there is no scheduler of HAMi's",
        *(given_by_claims, claimed_by_webhook, no_scheduler, blind),
        either=True,
        ends=True,
        when=lambda scene, _: not scene.install.seen,
    ),
    Stage("its scheduler panics", recovered, extender_ended_before, either=True),
    Stage("its scheduler counts pods that are gone", counts_ghosts),
    Stage("its scheduler is down or unwell", unwell, past_crashes, either=True),
    Stage("nobody leads, or not who should", leadership),
    Stage("pods do not come to it", webhook),
    Stage(
        "devices are handed out by claims",
        *(handed_out_twice, two_webhooks, given_by_claims, claimed_by_webhook),
        either=True,
    ),
    Stage("it is not asked, or refused", misconfigured, refused),
    Stage("versions do not go together", mismatched, too_old),
    Stage("nodes have no device plugin that works", plugins_fail, plugins_unready, plugins_missing),
    Stage("its settings", stuck, profiles, loud, opened),
    Stage("it works, and does not know all nodes", nodes_unregistered, when=_works),
    Stage("the bot itself", blind, wrong_clock, beside=True, keeps=of_a_new_code),
    Stage("all is well", healthy, when=_works, leads=before),
)


def judge(scene: InstallScene) -> list[Finding]:
    """The findings about the installation, the worst first; an open change leads all that is not critical."""
    told = run(STATUS, scene)
    if told.ended:
        return told.findings
    ordered = sorted(told.findings, key=lambda result: -SEVERITIES.index(result.severity))
    return sorted(ordered, key=lambda result: (result.severity != "critical", result.code != "change-open"))


def gaps(scene: InstallScene) -> list[Gap]:
    """The gaps of the installation: what could not be read, and what could not be judged because of that."""
    held = [scene.held] if isinstance(scene.held, Gap) else []
    return [*scene.unread, *_unjudged(scene), *unread(scene.process), *held]


def _unjudged(scene: InstallScene) -> Iterator[Gap]:
    if not scene.install.seen:
        if given_by_claims(scene) or claimed_by_webhook(scene):
            yield gap("HAMi-DRA", Text("dra-mode.unjudged"))
        return
    if scene.version is None:
        yield gap("HAMi version", Text("gap.version"), Text("gap.version-hint"))
    hook = scene.webhook.hook
    if hook is not None and service_of(hook) is None:
        yield gap("webhook", Text("status.url"))
    read = all(gap.source not in ("config maps", "kube-scheduler config") for gap in scene.unread)
    if scene.components.scheduler_config is None and read:
        why = Text("status.no-config", namespace=scene.install.namespace)
        yield gap("kube-scheduler config", why, Text("status.no-config-hint"))
    if scene.components.plugins == []:
        yield gap("device plugin", Text("status.no-plugins"), Text("status.no-plugins-hint"))
    yield from (gap("objects", name, Text("gap.undecodable")) for name in scene.undecodable)
