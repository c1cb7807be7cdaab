"""`profile`: takes a Go profile of HAMi's scheduler or another Go program, and shows where its time or memory goes."""

from collections.abc import Mapping
from typing import NamedTuple

import click

from bot.errors import SourceError
from bot.hami.installation.install import PROFILING_SINCE, is_loopback, profiles_address
from bot.kube.times import format_time
from bot.pprof.decode import read
from bot.pprof.findings import SourcedProfile, explain, headline, top_table
from bot.pprof.graph import Trim
from bot.pprof.profile import ALLOCATED, Profile, ValueType, sample_index, shown_type
from bot.pprof.top import Options, TopRow, listing, prepared, total_of
from bot.pprof.units import AUTO, label
from bot.report import Evidence, Finding, NextAction, Report, Subject, act, gap, step
from bot.texts import Text, spaced
from playbooks.playbook import Playbook
from playbooks.profile.fetch import FetchedProfile, Off, ProfileSnapshot, TriedPort, gather
from playbooks.profile.request import EXAMPLE, ProfileKind, name_of, request
from playbooks.quotes import kubectl
from playbooks.rules.common.findings import finding

ROWS = 10
_SECOND_NS = 1_000_000_000


class ProfileView(NamedTuple):
    """A profile as its report shows it. `kind` is the sample type of all that follows, `total_text` its sum with its
    unit.

    `seconds` is 0 for a profile of one moment; `rows` are the first of the table; `profile` is as `decode.read` gives
    it.
    """

    kind: ValueType
    total: int
    total_text: str
    seconds: float
    rows: tuple[TopRow, ...]
    profile: Profile


_CLAIMS: Mapping[ProfileKind, str] = {
    "cpu": "profile.cpu-total",
    "heap": "profile.heap",
    "allocs": "profile.allocs",
    "goroutine": "profile.goroutine",
    "goroutineleak": "profile.goroutineleak",
}


def view_of(snapshot: ProfileSnapshot) -> ProfileView | None:
    """Decodes the profile, which takes a while; None if none was fetched. Raises SourceError if it is no profile."""
    taken = snapshot.scene.outcome
    if isinstance(taken, Off):
        return None
    try:
        profile = read(taken.content)
        kind_shown = shown_type(profile)
        found = listing(prepared(profile.copy()), Options(sample_index=kind_shown, trim=Trim(nodecount=ROWS)))
        index = sample_index(profile, kind_shown)
        kind, total = profile.sample_types[index], total_of(profile, index)
    except SourceError as error:
        raise SourceError(Text("error.at", place=f"GET {taken.wanted}", why=error.message), hint=error.hint) from error
    return ProfileView(
        kind=kind,
        total=total,
        total_text=label(total, kind.unit, AUTO),
        seconds=max(profile.duration_nanos, 0) / _SECOND_NS,
        rows=found.rows,
        profile=profile,
    )


def diagnose(snapshot: ProfileSnapshot, seen: ProfileView | None = None, file: str = "") -> Report:
    """The report of the profile; `file` is its name in commands, by default its id in the store. `seen` is the result
    of `view_of`; without it this calls `view_of`, and raises its errors.
    """
    taken, gaps = snapshot.scene.outcome, list(snapshot.scene.gaps)
    if isinstance(taken, Off):
        off = _off(snapshot, taken)
        return snapshot.report("profile", _about_scheduler(snapshot), (off,), gaps=gaps)
    seen = seen or view_of(snapshot)
    assert seen is not None  # as it was taken
    name = name_of(snapshot.request.kind, taken.content)
    known = SourcedProfile(seen.profile, file or name, f"Pod {taken.wanted.namespace}/{taken.wanted.pod}")
    whole = _taken(snapshot.request.kind, taken, seen, known)
    tables = (top_table(Text("profile.table", name=name, count=len(seen.rows)), seen.rows),) if seen.rows else ()
    if not taken.version:
        gaps.append(gap("version", Text("profile.no-version"), Text("profile.no-version-hint")))
    subject, findings = Subject("Profile", "", name), (*explain(known), whole)
    return snapshot.report("profile", subject, findings, verdict=whole.text, tables=tables, gaps=gaps)


def _taken(kind: ProfileKind, taken: FetchedProfile, seen: ProfileView, known: SourcedProfile) -> Finding:
    claim = _claim(kind, taken, seen)
    return finding("profile-taken", claim, "confirmed", (), (headline(known, seen.kind.type),), severity="info")


def _claim(kind: ProfileKind, taken: FetchedProfile, seen: ProfileView) -> Text:
    who = Text("profile.leader", pod=taken.wanted.pod) if taken.leads else taken.wanted.pod
    if kind == "cpu" and seen.seconds > 0 and seen.kind.unit == "nanoseconds":
        share = f"{seen.total / (seen.seconds * 1e9):.1%}"
        return Text("profile.cpu", pod=who, total=seen.total_text, seconds=f"{seen.seconds:.0f}", share=share)
    if seen.seconds > 0 and seen.kind.type == ALLOCATED:
        return Text("profile.allocated", pod=who, total=seen.total_text, seconds=f"{seen.seconds:.0f}")
    meanwhile = Text("profile.change", seconds=f"{seen.seconds:.0f}") if seen.seconds > 0 else ""
    return Text(_CLAIMS[kind], pod=who, total=spaced(seen.total_text, meanwhile))


def _off(snapshot: ProfileSnapshot, off: Off) -> Finding:
    install = snapshot.scene.install
    actions: list[NextAction] = []
    if install is None:
        claim = Text("profiling-off.target", target=snapshot.request.target)
    elif install.version and install.version.version < PROFILING_SINCE:
        claim = Text("profiling-off.too-old", version=install.version.version, since=PROFILING_SINCE)
        actions.append(step(Text("profiling-off.upgrade", since=PROFILING_SINCE), "status"))
    else:
        claim = Text("profiling-off.claim", count=len({port.address.pod for port in off.tried}))
        actions.append(act(Text("profiling-off.on"), "profiling on for 15m"))
        address = profiles_address(install.flags, install.version.version if install.version else None)
        if is_loopback(address) and off.tried:
            host, _, port = address.rpartition(":")
            place = off.tried[0].address
            forward = kubectl("-n", place.namespace, "port-forward", f"pod/{place.pod}", f"{port}:{port}")
            actions.append(step(Text("profiling-off.forward", host=host, port=port), forward))
    proofs = [_refusal(snapshot, port) for port in off.tried]
    if not proofs and install and install.version:
        images = ("get", "pods", "-o", "jsonpath={.items[*].spec.containers[*].image}")
        command = kubectl("-n", install.namespace, *images)
        proofs = [Evidence("version", install.version.object, None, install.version.quote, command)]
    return finding("profiling-off", claim, "confirmed", (), proofs, severity="warning", actions=actions)


def _refusal(snapshot: ProfileSnapshot, tried: TriedPort) -> Evidence:
    place = tried.address
    proxy = f"/api/v1/namespaces/{place.namespace}/pods/{place.scheme}:{place.pod}:{place.port}/proxy/debug/pprof/"
    return Evidence(
        source="pprof",
        object=f"Pod {place.namespace}/{place.pod}",
        at=format_time(snapshot.taken_at),
        quote=tried.quote,
        command=kubectl("get", "--raw", proxy),
    )


def _about_scheduler(snapshot: ProfileSnapshot) -> Subject:
    target, install = snapshot.request.target, snapshot.scene.install
    if target is not None:
        return Subject("Pod", target.namespace, target.pod)
    name = install.deployment.name if install and install.deployment else ""
    return Subject("HAMi", install.namespace if install else "", name)


PLAYBOOK = Playbook(
    verb="profile",
    summary="Take a profile of HAMi's scheduler; table, flame graph, what stands out, and the file.",
    example=EXAMPLE,
    parameters=(
        click.Argument(["words"], nargs=-1, metavar="[WORDS]…"),
        click.Option(
            ["--target"], default="", metavar="NAMESPACE/POD:PORT", help="Another Go program than HAMi's scheduler."
        ),
    ),
    request=request,
    gather=gather,
    diagnose=diagnose,
)
