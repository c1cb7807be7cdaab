"""Rules about faults inside a GPU container by its log: words of HAMi-core, the dynamic loader and CUDA libraries."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from bot.finding_codes import Code
from bot.hami.pods.allocations import given as given_by_hami
from bot.hami.pods.allocations import is_finished
from bot.hami.pods.pod_request import written
from bot.hami.pods.request_parsing import extended_resources
from bot.hami.signatures import CORE_HEADER, Hit, find, signatures
from bot.hami.vendors import vendor_of_resource
from bot.kube.models import ContainerStatus, Pod, StateTerminated
from bot.kube.models.pods import EnvVar
from bot.kube.times import parse_time
from bot.report import Confidence, Evidence, Finding, Gap, NextAction, act, step
from bot.texts import Text, sentences, together
from playbooks import quotes
from playbooks.gather.node_side import LogSeen, is_monitor
from playbooks.gather.pods import asks_for_devices
from playbooks.quotes import kubectl_logs, kubectl_pod
from playbooks.rule import rule
from playbooks.rules.common import prose
from playbooks.rules.common.containers import gpu_containers, in_trouble, of_end, path_in, statuses
from playbooks.rules.common.findings import fix_of, log_line
from playbooks.rules.common.holders import edit_owner, recreate
from playbooks.rules.placed.container_faults import (
    GpuContainers,
    fault,
    given,
    is_limited,
    less_promised,
    of_class,
    scaling_of,
    sharers,
    strangers,
    without_gpu,
)
from playbooks.rules.placed.hami_core import (
    FIRST_WITHOUT_CRASHES,
    SEGFAULT,
    is_turned_off,
    library_of,
    library_told,
    newer_driver,
    paths_told,
    reasons_in,
)
from playbooks.rules.waiting import volcano
from playbooks.scenes.placed_pod import PlacedScene

_CORE_LINE = re.compile(CORE_HEADER)
_INITIALIZED = re.compile(CORE_HEADER + r"Initialized")
_NO_HOST_PID = re.compile(CORE_HEADER + r"host pid is error!")
_AMOUNTS = re.compile(r"OOM (\d+) / (\d+)")
_MIB = 1024 * 1024
_AFTER = 5
"""How many lines other threads may print after the last words of a process that waits or fails."""
_CUDA_OOM = "core-cuda-oom"
_OF_LIMIT = ("core-torch-oom", "core-kv-cache", _CUDA_OOM)
"""Other programs' words when a GPU is full, which count where the container has a limit."""
_ONLY_AT_AN_END = ("core-no-gpu-seen", *_OF_LIMIT)
"""Words that count only at a container's end: a program may go on without a GPU, or with less memory."""
_UNSURE = (
    *("core-preload-class", "core-no-platform", "core-no-fabric", "core-stack", "core-starting", "core-nccl-start"),
    *("core-segfault", "core-worker-died", *_OF_LIMIT),
)
"""Words with other causes too: the loader says the first also in a 32-bit helper beside a program with HAMi-core."""
_TORCH = re.compile(
    r"allocate (?P<asked>[\d.]+ \w+).*?(?:; (?P<before>[\d.]+ \w+) total|capaci?ty of (?P<total>[\d.]+ \w+))"
    r"(?:.*?(?:; |which )(?P<free>[\d.]+ \w+) (?:is )?free)?"
)
_UNITS = {"bytes": 1 / 1024 / 1024, "KiB": 1 / 1024, "MiB": 1.0, "GiB": 1024.0}
_ROUNDING = 10.24
"""The rounding of PyTorch's figures, in MiB: it gives two digits of a GiB."""
_OPENS_QUOTE = re.compile(r"""(?<![:=])(?<!": )(?<!=[bru])["'`\u201c\u2018]$""")
"""Matches the end of what precedes words that somebody quotes; a field's value (`msg="…`, `"msg": "…`) is no quote."""
_NO_ERROR = re.compile(r"\b(INFO|DEBUG|TRACE)\b|\blevel\W{1,4}(info|debug|trace)\b")
"""Matches the level in a line that its own logger does not call an error."""
_OWN_ERROR = re.compile(
    r"\b(?!ActorDied|Broken|ChildFailed|Connect|Dist|EngineDead|EOF)\w+Error: "
    r"(?!Command .* died with <Signals|DataLoader worker .*Segmentation fault|Engine|NCCL|Worker)"
)
"""Matches an error of a program's own: not the loss of another worker, and not the words that tell of a lost one."""
_CRASH = re.compile(r"Segfault encountered|Segmentation fault|SIGSEGV")
"""Matches words for a crash, where the exit code is that of another process."""
_CRASH_CODES = (134, SEGFAULT)
_NCCL = "core-nccl-start"
_STANDS_STILL = timedelta(minutes=3)
"""From this time without output on, a start hangs: HAMi-core takes seconds, NCCL on several GPUs half a minute."""
_OF_THE_NODE = ("DaemonSet", "Node")
"""Kinds of owners whose pods look after a node; a static pod belongs to its node."""
_NO_GPU = ("cuinit-no-device", "core-no-gpu-seen")
"""Words that no GPU is in the container; its environment or its runtime is why."""
_GPU_FULL, _VISIBLE = "core-gpu-full", "NVIDIA_VISIBLE_DEVICES"
_MOST_OTHERS = 2
_SURE = 3
"""The number of lines about waiting that make a hang: fewer come from processes that start beside each other."""
_OF_LIBRARY = {"hami-core-crash": library_told, "hami-core-hang": library_told, "hami-core-missing": paths_told}
"""By code: the function that adds a fact about HAMi-core to findings."""


_KINDS: Mapping[Code, str] = {
    **dict.fromkeys(("driver-not-loaded", "gpu-runtime-missing", "card-fault", "gpu-start-failure"), "no GPU"),
    **dict.fromkeys(("hami-core-crash", "hami-core-hang"), "HAMi-core"),
    **dict.fromkeys(("hami-core-missing", "limit-not-enforced"), "no limit"),
    "gpu-memory-limit": "the limit",
}
"""The kinds of faults: those of one kind lead to each other; a fault of another kind is a finding of its own."""


class _Word(NamedTuple):
    """A signature found in a log, and what the container of that log is doing."""

    hit: Hit
    log: LogSeen
    status: ContainerStatus

    @property
    def ended(self) -> StateTerminated | None:
        """How the container's last run ended; None if none has."""
        return self.status.last_state.terminated or self.status.state.terminated


@rule(
    *("hami-core-crash", "hami-core-hang", "hami-core-missing", "gpu-memory-limit", "limit-not-enforced"),
    *("gpu-start-failure", "gpu-runtime-missing", "driver-not-loaded", "card-fault"),
    reads=("install",),
)
def own_log_fault(scene: PlacedScene) -> Iterator[Finding]:
    """The findings of a fault inside a container by its own log: of each kind the one that explains most."""
    by_name = {status.name: status for status in statuses(scene.pod)}
    version = None if volcano.limited_containers(scene.pod) else scene.plugin_version
    words = [
        _Word(hit, log, by_name[log.container])
        for log in scene.own_logs or ()
        if log.container in by_name and (not log.previous or in_trouble(by_name[log.container], scene.now))
        for hit in find("workload-log", log.lines, version)
    ]
    order = [signature.id for signature in signatures()]
    meant = [word for word in words if _means_it(word, scene.now) and _concerns(word, scene)]
    meant.sort(key=lambda word: (order.index(word.hit.signature.id), word.log.previous))
    kinds: dict[str, list[_Word]] = {}
    for word in meant:
        kinds.setdefault(_KINDS[_meaning(word, scene).code], []).append(word)
    for words in kinds.values():
        yield _finding(scene, words)


@rule("hami-core-hang", reads=("install", "node"), after=own_log_fault)
def silent_start(scene: PlacedScene) -> Iterator[Finding]:
    """The finding that a GPU container printed nothing for minutes, under a driver newer than HAMi-core knows."""
    fact, pod = newer_driver(scene), scene.pod
    names = {container.name for container in scene.once(given).containers}
    for log in scene.own_logs or ():
        if fact is None or log.previous or log.container not in names or any(line.strip() for line in log.lines):
            continue
        running = next((one.state.running for one in statuses(pod) if one.name == log.container), None)
        started = parse_time(running.started_at) if running else None
        if running is None or started is None or scene.now - started <= _STANDS_STILL:
            continue
        claim = sentences(Text("in-container.silent", container=log.container, node=pod.spec.node_name), fact.text)
        since = quotes.of_pod(pod, running.started_at or "", path_in(pod, log.container, "state.running.startedAt"))
        fix = act(Text("in-container.fix-driver"), kubectl_pod(pod, "get", "-o", "yaml"))
        yield fault(scene, "hami-core-hang", claim, [since, *fact.proofs], [fix])
        return


def _concerns(word: _Word, scene: PlacedScene) -> bool:
    """Whether the words can be about what the pod's containers have of GPUs: all but one speak of NVIDIA's."""
    asked, held, gpus = {*extended_resources(scene.pod)}, scene.once(given), scene.config.gpus
    if asked.isdisjoint(gpus.all) and any(map(vendor_of_resource, asked)):  # of other vendors alone
        return word.hit.signature.id == "core-ascend-dcmi"
    ended = word.ended
    match word.hit.signature.id:
        case "core-host-pid":
            return held.limits_cores
        case "core-no-gpu-seen":
            counted = any(gpus.count in ((one.resources and one.resources.limits) or ()) for one in held.containers)
            has_some = given_by_hami(scene.pod.metadata) is not None or bool(volcano.limited_containers(scene.pod))
            return counted or has_some
        case "core-torch-oom":
            return _shortage(word, scene) is not None
        case "core-kv-cache" | "core-cuda-oom":
            return bool(held.shares) and is_limited(scene, held)
        case "core-starting":
            return _stands_still(word, scene.now)
        case "core-nccl-start":
            return len(held.shares) > 1 and _stands_still(word, scene.now) and not scene.once(is_turned_off)
        case "core-stack":
            crashed = ended is not None and ended.exit_code in _CRASH_CODES
            return crashed or any(map(_CRASH.search, word.log.lines))
        case "core-segfault" | "core-worker-died":
            library = library_of(scene.plugins)
            prone = len(held.shares) > 1 and library is not None and library.version < FIRST_WITHOUT_CRASHES
            killed = ended is not None and ended.reason == "OOMKilled"
            return prone and not killed and not any(map(_OWN_ERROR.search, word.log.lines))
        case _:
            return True


def _stands_still(word: _Word, now: datetime) -> bool:
    """Whether the container has run for minutes since, by its start: a log has no times of its own."""
    running = None if word.log.previous else word.status.state.running
    started = parse_time(running.started_at if running else None)
    return started is not None and now - started > _STANDS_STILL


class _Shortage(NamedTuple):
    """PyTorch took a container's limit for the GPU's size, in MiB: `free` of it when it asked for `asked` more."""

    limit: int
    asked: float
    free: float | None

    @property
    def of_the_gpu(self) -> bool:
        """Whether the limit leaves enough, so that the GPU itself is full."""
        return self.free is not None and self.free > self.asked


def _shortage(word: _Word, scene: PlacedScene) -> _Shortage | None:
    """PyTorch's figures; None where its GPU size is not the container's limit, or there is no limit and no room."""
    held, said = scene.once(given), _TORCH.search(word.hit.quote)
    total = _mib(said["before"] or said["total"]) if said else 0.0
    near = [one.memory_mib for one in held.shares if abs(one.memory_mib - total) <= _ROUNDING]
    if said is None or not near:
        return None
    found = _Shortage(near[0], _mib(said["asked"]), _mib(said["free"]) if said["free"] else None)
    return found if found.of_the_gpu or is_limited(scene, held) else None


def _mib(amount: str) -> float:
    number, _, unit = amount.partition(" ")
    return float(number) * _UNITS.get(unit, 1.0)


class _WordMeaning(NamedTuple):
    """What words mean in this container, and what to do about it. `full`: its GPU's own memory is used up. Not `sure`:
    the words may be wrong.
    """

    code: Code
    sentence: Text
    fixes: Sequence[NextAction]
    full: bool = False
    proofs: Sequence[Evidence] = ()
    sure: bool = True


def _meaning(word: _Word, scene: PlacedScene) -> _WordMeaning:
    """What the signature says, or what the amounts in the words tell."""
    signature, fix = word.hit.signature, [fix_of(word.hit, scene.pod, kubectl_pod(scene.pod, "get", "-o", "yaml"))]
    if signature.recreates:
        fix = [recreate(scene.pod, word.hit.fix)]
    elif signature.looks == "classed" and "nvidia" not in scene.pod.spec.runtime_class_name:
        fix = [edit_owner(scene.pod, word.hit.fix, of_class("nvidia"))]
    elif signature.id == _NCCL:
        off = {"name": word.log.container, "env": [{"name": "CUDA_DISABLE_CONTROL", "value": "true"}]}
        fix = [edit_owner(scene.pod, word.hit.fix, {"spec": {"containers": [off]}})]
    elif signature.code == "gpu-memory-limit" and scene.once(given).shares:
        fix = [_more_memory(scene, word)]
    if signature.id == "core-oom" and (amounts := _AMOUNTS.search(word.hit.quote)):
        needed, limit = (int(amount) // _MIB for amount in amounts.groups())
        sentence = Text("in-container.memory", needed=f"{needed:,}", limit=f"{limit:,}")
        own = [share.memory_mib for share in scene.once(given).shares]
        if own and not any(abs(memory - limit) <= 1 for memory in own):
            sentence = sentences(sentence, Text("in-container.memory-other", given=f"{max(own):,}"))
        found = next(filter(None, map(_NO_HOST_PID.search, word.log.lines)), None) if len(own) > 1 else None
        if found:
            sentence = sentences(sentence, Text("in-container.miscounted"))
            first = act(Text("in-container.fix-miscounted"), kubectl_pod(scene.pod, "get", "-o", "yaml"))
            return _WordMeaning(
                signature.code, sentence, [first, *fix], proofs=[log_line(word.log, found[0])], sure=False
            )
        return _WordMeaning(signature.code, sentence, fix)
    if signature.id in _NO_GPU:
        part = without_gpu(scene, word.log.container)
        return _WordMeaning(signature.code, Text("no-gpu.claim", why=part.text), part.steps, proofs=part.proofs)
    short = _shortage(word, scene) if signature.id == "core-torch-oom" else None
    scaling = scene.once(scaling_of)
    freed = less_promised(scene) if (scaling or 1) > 1 else strangers(scene.pod.spec.node_name)
    if signature.id == _GPU_FULL and scaling is not None:
        full = "in-container.full-scaled" if scaling > 1 else "in-container.full-plain"
        return _WordMeaning(signature.code, Text(full, scaling=f"{scaling:g}"), freed, full=True)
    # A limit above the memory that its GPU really has, and that memory.
    sizes = {card.uuid: card.memory_mib / (scaling or 1) for card in scene.cards if card.mode != "mig"}
    own = [(one.memory_mib, sizes[one.uuid]) for one in scene.once(given).shares if one.uuid in sizes]
    limit, has = next(((limit, has) for limit, has in own if limit > has + 1), (0, 0.0))
    if limit and signature.id == _CUDA_OOM:
        beyond = Text("in-container.beyond", limit=f"{limit:,}", has=f"{has:,.0f}", scaling=f"{scaling:g}")
        return _WordMeaning("limit-not-enforced", beyond, freed, full=True)
    if short is None:
        return _WordMeaning(signature.code, word.hit.means, fix, full=signature.id == _GPU_FULL)
    limit = f"{short.limit:,}"
    if not short.of_the_gpu:
        return _WordMeaning(signature.code, Text("in-container.memory-seen", limit=limit), fix)
    amounts = {"asked": f"{short.asked:,.0f}", "limit": limit, "free": f"{short.free or 0:,.0f}"}
    key = "in-container.gpu-scaled" if (scaling or 1) > 1 else "in-container.gpu-full"
    sentence = Text(key, scaling=f"{scaling or 1:g}", **amounts)
    return _WordMeaning("limit-not-enforced", sentence, freed, full=True)


def _more_memory(scene: PlacedScene, word: _Word) -> NextAction:
    """The step that raises the memory limit of a container that met it, or lets the program use less."""
    memory = scene.config.gpus.memory
    container = next((one for one in scene.once(given).containers if one.name == word.log.container), None)
    now = written(container, memory) if container else None
    size = max((card.memory_mib for card in scene.cards), default=0)
    held = max(share.memory_mib for share in scene.once(given).shares)
    held_of = together(prose.mib(held), Text("in-container.of-size", size=prose.mib(size)) if size else "", by=" ")
    values = {"container": word.log.container, "resource": memory, "given": held_of}
    values["now"] = str(now) if now else Text("render.unset")
    if amounts := _AMOUNTS.search(word.hit.quote):
        needed = int(amounts[1]) // _MIB
        if size and needed > size:
            return step(Text("in-container.use-less", needed=prose.mib(needed), size=prose.mib(size)), "")
        return edit_owner(scene.pod, Text("in-container.raise-above", **values, needed=prose.mib(needed)))
    return edit_owner(scene.pod, Text("in-container.raise", **values))


def _means_it(word: _Word, now: datetime) -> bool:
    """Whether the words say what is wrong now: most are harmless in a container that goes on."""
    after = word.log.lines[word.hit.line + 1 :]
    last = sum(1 for line in after if line.strip() and not _CORE_LINE.search(line)) <= _AFTER
    signature, trouble = word.hit.signature, in_trouble(word.status, now)
    before = word.log.lines[word.hit.line].partition(word.hit.quote)[0]
    is_told = _OPENS_QUOTE.search(before) or (not trouble and _NO_ERROR.search(before))  # the line tells of the words
    if is_told and not signature.core and signature.id != _NCCL:
        return False
    if signature.id in _OF_LIMIT and not last and any(map(_OWN_ERROR.search, after)):
        return False  # it did with less memory, and ended of another error
    match signature.code:
        case "hami-core-crash":
            return trouble
        case "hami-core-hang":
            return last and not any(map(_INITIALIZED.search, after))
        case "hami-core-missing":
            return not any(map(_CORE_LINE.search, after))
        case _:
            return signature.core or trouble or (last and signature.id not in _ONLY_AT_AN_END)


def _is_sure(word: _Word, now: datetime) -> bool:
    """Whether the words prove it. In the log of a running program, words other than HAMi-core's may be anybody's."""
    signature = word.hit.signature
    if signature.id in _UNSURE or word.hit.is_past:
        return False
    if signature.code == "hami-core-hang":
        pattern = re.compile(signature.pattern)
        return sum(1 for line in word.log.lines if pattern.search(line)) >= _SURE
    if signature.code == "hami-core-missing":
        return True
    return signature.core or in_trouble(word.status, now)


def _finding(scene: PlacedScene, words: Sequence[_Word]) -> Finding:
    pod, now, first = scene.pod, scene.now, words[0]
    signature = first.hit.signature
    means = _meaning(first, scene)
    same = [word for word in words if _meaning(word, scene).code == means.code]
    lines = [log_line(word.log, word.hit.quote) for word in same]
    proofs: list[Evidence] = [*lines[:1], *means.proofs]
    if signature.id in _OF_LIMIT:
        proofs.append(quotes.of_holder(pod))
    node = pod.spec.node_name or "?"
    claim = Text("in-container.claim", container=first.log.container, node=node, means=means.sentence)
    if means.code in _OF_LIBRARY and (fact := _OF_LIBRARY[means.code](scene.plugins)):
        claim, proofs = sentences(claim, fact.text), [*proofs, *fact.proofs]
    steps = [*means.fixes]
    for key, takers in (_takers(scene) if means.full else {}).items():
        # A pod that looks after the node may have to see every GPU.
        taker = next((pod for pod, _ in takers if key == "visible" and not _is_of_node(pod)), None)
        if taker is not None:
            values = {"pod": f"{taker.namespace}/{taker.name}", "resource": scene.config.gpus.memory}
            steps.insert(0, edit_owner(taker, Text("in-container.ask-share", **values)))
        names = [f"{pod.namespace}/{pod.name}" for pod, _ in takers]
        claim = sentences(claim, Text(_TAKERS[key], pods=prose.names(names)))
        proofs += [proof for _, proof in takers[:_MOST_OTHERS]]
    proofs += lines[1:]
    ended = first.ended
    if ended is not None and in_trouble(first.status, now):
        proofs.append(of_end(pod, first.status, ended))
    sure: Confidence = "confirmed" if means.sure and _is_sure(first, now) else "suspected"
    if sure == "suspected" and means.code == "hami-core-crash":
        earlier = ["--previous"] if first.log.previous else []
        look = kubectl_logs(pod, first.log.container, *earlier, "--tail=200")
        steps.insert(0, step(Text("in-container.read"), look))
    return fault(scene, means.code, claim, proofs, steps, sure=sure)


_TAKERS = {
    "off": "in-container.others-off",
    "visible": "in-container.outside",
    "privileged": "in-container.outside-privileged",
    "runtime": "in-container.outside-runtime",
}
"""The texts about who else may take memory of a GPU that HAMi does not count."""


def _takers(scene: PlacedScene) -> dict[str, list[tuple[Pod, Evidence]]]:
    """The other pods of the node whose use of the GPU nothing limits, by why, with evidence; none of HAMi's own."""
    side = scene.side
    if side is None or isinstance(side.pods, Gap):
        return {}
    held, own = scene.once(given), {scene.pod.metadata.uid, *(pod.metadata.uid for pod in side.plugin_pods)}
    beside = {pod.metadata.uid for pod in sharers(scene, held) or ()}
    found: dict[str, list[tuple[Pod, Evidence]]] = {}
    for pod in side.pods:
        if pod.metadata.uid in own or is_finished(pod) or any(is_monitor(each.name) for each in pod.spec.containers):
            continue
        if pod.metadata.uid in beside:  # it has a share of the same GPU, and may turn HAMi-core off
            parts = gpu_containers(pod, scene.config)
            reasons = (reason for part in parts for reason in reasons_in(pod, part, cores=False))
            taken = next(
                (("off", quotes.of_pod(pod, one.quote, one.path)) for one in reasons if one.word == "disabled"), None
            )
        else:
            taken = _outside_hami(pod, held)
        if taken:
            found.setdefault(taken[0], []).append((pod, taken[1]))
    return {key: found[key] for key in _TAKERS if key in found}


def _is_of_node(pod: Pod) -> bool:
    return any(owner.kind in _OF_THE_NODE for owner in pod.metadata.owner_references or ())


def _outside_hami(pod: Pod, held: GpuContainers) -> tuple[str, Evidence] | None:
    """A pod that sees GPUs without a share of HAMi's; a DaemonSet's privileged pods look after the node."""
    if asks_for_devices(pod):
        return None
    parts = pod.spec.containers
    found = ((each.name, one) for each in parts for one in each.env or () if one.name == _VISIBLE)
    container, variable = next(found, ("", EnvVar()))
    if variable.value == "all" or any(share.uuid in variable.value for share in held.shares):
        return "visible", quotes.of_env(pod, container, variable)
    if _is_of_node(pod):
        return None
    if "nvidia" in pod.spec.runtime_class_name:
        return "runtime", quotes.of_pod(pod, pod.spec.runtime_class_name, "{.spec.runtimeClassName}")
    if any(each.security_context and each.security_context.privileged for each in parts):
        return "privileged", quotes.of_pod(pod, "true", "{.spec.containers[*].securityContext.privileged}")
    return None
