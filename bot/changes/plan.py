"""Plans how to raise a flag for a while, and exactly how to revert it: pure, from the Deployment as it is now.

Every patch is a JSON patch (RFC 6902) of the whole Deployment whose `test` operations make it a lock of its own: it
does nothing unless the object is still the one that was planned on.
"""

import hashlib
import math
from typing import Any, Literal, NamedTuple, cast

import msgspec

from bot.changes.deadline import LONGEST_S, no_extension, no_such_length, time_text, wrong_clock
from bot.changes.flags import (
    ArgumentList,
    Field,
    Object,
    Unsuitable,
    find_spot,
    last_set,
    part_of,
    target_of,
    with_value,
    with_words,
)
from bot.changes.kinds import ChangeKind, kind_of, set_along
from bot.changes.record import (
    KEY,
    VERSION,
    FlagChange,
    Means,
    Record,
    Refusal,
    UnreadableRecord,
    read_record,
    write_record,
)
from bot.hami.installation.install import PROFILES_BIND
from bot.hami.version import Version
from bot.kube.hami_pods import EXTENDER_CONTAINER, KUBE_SCHEDULER_CONTAINER, read_flags
from bot.report import Impact
from bot.texts import Text

KEY_PATH = "/metadata/annotations/" + KEY.replace("~", "~0").replace("/", "~1")
"""The place of the record, as a JSON pointer into the Deployment."""

Patch = tuple[dict[str, Any], ...]
"""The operations of a JSON patch."""


class Raise(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A change as asked for: which flags (named without hyphens) of `container` get which values, and for how long.
    `until_captured` is the pod (`namespace/name`) whose log lines end the change early. `by` asks in `channel`: both
    are empty until they are known. `means` is how the values are set. With `dry_run` the plan is only shown. A flag of
    no kind raises UnknownKind, flags that no verb sets together raise ValueError.
    """

    values: tuple[tuple[str, str], ...]
    container: str
    seconds: float
    because: str = ""
    until_captured: str = ""
    dry_run: bool = False
    by: str = ""
    channel: str = ""
    means: Means = "patch"

    def __post_init__(self) -> None:
        flags = [flag for flag, _ in self.values]
        if len({kind_of(flag).verb for flag in flags}) != 1 or len(set(flags)) != len(flags):
            raise ValueError(f"these cannot be set together: {', '.join(flags)[:200]}")

    @property
    def kind(self) -> ChangeKind:
        """The kind of the first flag; all that concerns the change as a whole is the same for the other flags."""
        return kind_of(self.values[0][0])

    @property
    def verb(self) -> str:
        return self.kind.verb


class Plan(msgspec.Struct, frozen=True):
    """A change that can be made: the record that goes with it, the patch, and the patch that reverts it. `wanted` is
    what it was planned for; `uid` and `basis` (see `basis_of`) are those of the object that it was planned on.
    `impacts` are what the change brings with it, where that was looked at.
    """

    wanted: Raise
    record: Record
    uid: str
    basis: str
    patch: Patch
    revert_patch: Patch
    impacts: tuple[Impact, ...] = ()


class NothingToDo(NamedTuple):
    """No change is needed: each flag has the wanted value already, or a higher one; `values` are the present ones."""

    values: tuple[str, ...]


def plan_raise(
    deployment: Object,
    wanted: Raise,
    *,
    now: float,
    change_id: str,
    version: Version | None,
    skew_s: float = 0.0,
) -> Plan | NothingToDo | Refusal:
    """Plans a change. `now` is the API server's time in unix seconds, `skew_s` how far this process is ahead of it."""
    values = (kind_of(name).refusal(wanted.container, value) for name, value in wanted.values)
    no_such_value = next((Refusal("value", *why) for why in values if why), None)
    refusal = no_such_length(wanted.seconds) or no_such_value or _open_already(deployment)
    refusal = refusal or wrong_clock(skew_s) or _unfit(deployment, wanted, version)
    if refusal:
        return refusal
    spot = find_spot(deployment, wanted.container)
    if spot is None:
        why = Text("refusal.no-container", target=target_of(deployment), container=wanted.container)
        return Refusal("no-container", why, Text("refusal.no-container-do"))
    made = _set_all(spot, wanted, version)
    if isinstance(made, NothingToDo | Refusal):
        return made
    field, words, (first, *others) = made
    if wanted.means == "debug-flags":
        if refusal := _no_running_level(deployment, wanted, first.old):
            return refusal
        words = spot.words(field)
    record = Record(
        v=VERSION,
        id=change_id,
        target=target_of(deployment),
        flag=first.flag,
        container=wanted.container,
        field=field,
        words_before=spot.words(field),
        words_after=words,
        old=first.old,
        new=first.new,
        means=wanted.means,
        raised_at=time_text(math.floor(now)),
        at=time_text(math.floor(now) + math.ceil(wanted.seconds)),
        by=wanted.by,
        because=wanted.because.encode(errors="replace").decode(),  # JSON has no halves of surrogate pairs
        channel=wanted.channel,
        until_captured=wanted.until_captured,
        also=tuple(others),
    )
    if read_record(write_record(record)) != record:  # what cannot be read later would never be undone
        why = Text("refusal.long-record", count=f"{len(write_record(record)):,}")
        return Refusal("unsuitable", why, Text("refusal.long-record-do"))
    meta = part_of(deployment, "metadata")
    no_annotations = not meta.get("annotations")
    patch: list[dict[str, Any]] = [
        *(_test(f"/metadata/{key}", meta[key]) for key in ("uid", "resourceVersion") if key in meta),
        *_set_words(spot.place, record, record.words_before, record.words_after),
        *([{"op": "add", "path": "/metadata/annotations", "value": {}}] if no_annotations else []),
        {"op": "add", "path": KEY_PATH, "value": write_record(record)},
    ]
    back = _set_words(spot.place, record, record.words_after, record.words_before)
    revert = _reverting(_uid(deployment), back, write_record(record))
    return Plan(wanted, record, _uid(deployment), basis_of(deployment), tuple(patch), revert)


def _set_all(
    spot: ArgumentList, wanted: Raise, version: Version | None
) -> tuple[Field, tuple[str, ...], list[FlagChange]] | NothingToDo | Refusal:
    """One of the container's lists with every flag at its new value, and the flags that were not there yet."""
    flags: list[FlagChange] = []
    fields: set[Field] = set()
    kept: list[str] = []
    address = set_along(wanted.kind, read_flags([*spot.command, *spot.args]), version)
    for name, value in (*wanted.values, *([(PROFILES_BIND, address)] if address else [])):
        kind = kind_of(name)
        before = last_set(spot, kind.flag)
        if before and kind.values.covers(before.value, value):
            kept.append(before.value)  # one that goes along is never among them
            continue
        try:
            field, words = with_value(spot, kind.flag, value)
        except Unsuitable as error:
            return Refusal("unsuitable", error.reason, Text("refusal.elsewhere-do"))
        spot = with_words(spot, field, words)
        fields.add(field)
        flags.append(FlagChange(name, before.value if before else "", value))
    if not flags:
        return NothingToDo(tuple(kept))
    if len(fields) > 1:  # a record reverts one list
        return Refusal("unsuitable", Text("refusal.two-lists", container=spot.container), Text("refusal.two-lists-do"))
    (field,) = fields
    return field, spot.words(field), flags


def plan_revert(deployment: Object, record: Record, words: tuple[str, ...], *, takes_off: bool = True) -> Patch:
    """The patch that makes the changed list `words`, if it is still as it was read, and removes the record; it has no
    operation where nothing is left to do. Without `takes_off` the annotation stays, as it holds another change's
    record.
    """
    spot = find_spot(deployment, record.container)
    place, now = (spot.place, spot.words(record.field)) if spot else (0, ())
    back = _set_words(place, record, now, words)
    if annotation(deployment) is None or not takes_off:
        return () if now == words else (_test("/metadata/uid", _uid(deployment)), *back)
    return _reverting(_uid(deployment), back, annotation(deployment))


def plan_forget(deployment: Object) -> Patch:
    """The patch that removes the record and leaves all else as it is; no operation where there is no record."""
    text = annotation(deployment)
    return () if text is None else _reverting(_uid(deployment), [], text)


def plan_extension(deployment: Object, record: Record, until: float, *, now: float) -> tuple[Record, Patch] | Refusal:
    """The record with the deadline `until`, and the patch that writes it; or a refusal, as of `no_extension`."""
    until = math.ceil(until)
    if refusal := no_extension(record, until, now=now):
        return refusal
    longer = msgspec.structs.replace(record, at=time_text(until), extended=record.extended + 1)
    return longer, _rewritten(deployment, longer)


def plan_retime(deployment: Object, record: Record, *, now: float) -> tuple[Record, Patch]:
    """The record as if raised at `now`, for as long as planned but never longer than allowed, and the patch."""
    began = math.floor(now)
    lasts = min(max(0, record.deadline - record.since), LONGEST_S)
    again = msgspec.structs.replace(record, raised_at=time_text(began), at=time_text(began + lasts))
    return again, _rewritten(deployment, again)


def annotation(deployment: Object) -> str | None:
    """The text of the bot's annotation on the object, None when there is none."""
    annotations = part_of(deployment, "metadata").get("annotations")
    return cast(Object, annotations).get(KEY) if isinstance(annotations, dict) else None


def unfinished_rollout(deployment: Object) -> Text | None:
    """What a rollout of the Deployment still waits for; None when no rollout is under way. As `kubectl rollout status`
    judges (k8s.io/kubectl/pkg/polymorphichelpers/rollout_status.go).
    """
    spec, status = part_of(deployment, "spec"), part_of(deployment, "status")
    wanted = spec.get("replicas", 1)
    updated, present = status.get("updatedReplicas", 0), status.get("replicas", 0)
    available = status.get("availableReplicas", 0)
    if part_of(deployment, "metadata").get("generation", 0) > status.get("observedGeneration", 0):
        return Text("refusal.rollout-unseen")
    if updated < wanted:
        return Text("refusal.rollout-updated", count=updated, wanted=wanted)
    if present > updated:
        return Text("refusal.rollout-old", count=present - updated)
    if available < updated:
        return Text("refusal.rollout-available", count=available, wanted=updated)
    return None


def _open_already(deployment: Object) -> Refusal | None:
    text = annotation(deployment)
    if text is None:
        return None
    found = read_record(text)
    if isinstance(found, UnreadableRecord):
        why = Text("refusal.unreadable", target=target_of(deployment), annotation=KEY, why=found.why)
        return Refusal("unreadable", why, Text("refusal.unreadable-do"))
    change = {"change": found.shown, "container": found.container, "until": found.at, "by": found.by}
    return Refusal("open", Text("refusal.open", **change), Text("refusal.open-do"), found)


def _unfit(deployment: Object, wanted: Raise, version: Version | None) -> Refusal | None:
    since = wanted.kind.since
    if since and wanted.container == EXTENDER_CONTAINER and (not version or version < since):
        known = Text("refusal.is-version", version=version) if version else Text("refusal.no-version")
        why = Text("refusal.no-such-flag", flag=wanted.kind.flag.shown, since=since, known=known)
        return Refusal("no-such-flag", why, Text("refusal.no-such-flag-do"))
    target = target_of(deployment)
    if part_of(deployment, "spec").get("paused"):
        return Refusal("paused", Text("refusal.paused", target=target), Text("refusal.paused-do"))
    if waits := unfinished_rollout(deployment):
        return Refusal("rollout", Text("refusal.rollout", target=target, waits=waits), Text("refusal.rollout-do"))
    return None


def _no_running_level(deployment: Object, wanted: Raise, value: str) -> Refusal | None:
    """Why the level cannot be set in the running process, or could not be set back there."""
    selector = part_of(part_of(deployment, "spec"), "selector")
    if not wanted.kind.is_log_level or wanted.container != KUBE_SCHEDULER_CONTAINER:
        why = Text("refusal.not-running", container=KUBE_SCHEDULER_CONTAINER)
    elif value and not wanted.kind.values.is_value(value):
        why = Text("refusal.no-way-back", value=repr(value))
    elif selector.get("matchExpressions"):
        why = Text("refusal.expressions", target=target_of(deployment))
    else:
        return None
    return Refusal("unsuitable", why, Text("refusal.by-words-do"))


def _set_words(place: int, record: Record, now: tuple[str, ...], then: tuple[str, ...]) -> list[dict[str, Any]]:
    """Replaces the list's words, guarded by the container's name: the order may change between look and patch."""
    at = f"/spec/template/spec/containers/{place}"
    words = f"{at}/{record.field}"
    tests = [_test(f"{at}/name", record.container), _test(words, list(now))]
    return tests if now == then else [*tests, {"op": "replace", "path": words, "value": list(then)}]


def _reverting(uid: str, words_back: list[dict[str, Any]], text: str | None) -> Patch:
    return (_test("/metadata/uid", uid), _test(KEY_PATH, text), *words_back, {"op": "remove", "path": KEY_PATH})


def _rewritten(deployment: Object, record: Record) -> Patch:
    return (
        _test("/metadata/uid", _uid(deployment)),
        _test(KEY_PATH, annotation(deployment)),
        {"op": "replace", "path": KEY_PATH, "value": write_record(record)},
    )


def _test(path: str, value: Any) -> dict[str, Any]:
    return {"op": "test", "path": path, "value": value}


def _uid(deployment: Object) -> str:
    return str(part_of(deployment, "metadata").get("uid", ""))


OwnerKind = Literal["gitops-argocd", "gitops-flux", "helm"]
_MARKS: tuple[tuple[OwnerKind, str, str], ...] = (
    ("gitops-argocd", "annotations", "argocd.argoproj.io/tracking-id"),
    ("gitops-argocd", "labels", "argocd.argoproj.io/instance"),
    ("gitops-flux", "labels", "kustomize.toolkit.fluxcd.io/name"),
    ("gitops-flux", "labels", "helm.toolkit.fluxcd.io/name"),
)
_RELEASE = "meta.helm.sh/release-name"


class OwningTool(NamedTuple):
    """The tool that owns a Deployment and may revert a change of it; `mark` is the label or annotation that says so."""

    kind: OwnerKind
    mark: str
    value: str


def owner_of(deployment: Object) -> OwningTool | None:
    """The first of Argo CD, Flux and Helm that has marked the Deployment as its own; None if none has."""
    meta = part_of(deployment, "metadata")
    labels, annotations = part_of(meta, "labels"), part_of(meta, "annotations")
    for kind, part, key in _MARKS:
        if value := (labels if part == "labels" else annotations).get(key):
            return OwningTool(kind, key, str(value))
    if labels.get("app.kubernetes.io/managed-by") == "Helm" or annotations.get(_RELEASE):
        return OwningTool(
            "helm", _RELEASE, str(annotations.get(_RELEASE) or labels.get("app.kubernetes.io/instance", "?"))
        )
    return None


def basis_of(deployment: Object) -> str:
    """SHA-256 of the object's uid, its spec (pod template, replicas, strategy …) and its owner. The other metadata and
    the status change by themselves, and with them neither what a change does nor what it brings. `metadata.generation`
    is left out because it counts edits of the spec that were taken back.
    """
    rests_on = (_uid(deployment), deployment.get("spec"), owner_of(deployment))
    return hashlib.sha256(msgspec.json.encode(rests_on, order="deterministic")).hexdigest()
