"""Questions as people type them: a known name anywhere in the message, and the phrases of `phrases.toml`.

`can someone check ml/trainer-0?` is `why ml/trainer-0`, `谁在用 gpu-1` is `gpus gpu-1`. A missing name is
the one that the thread is about, unless the message names a subject of its own, such as HAMi. Reading is deterministic,
and never gives a command that changes the cluster. What is not understood becomes three commands to choose from.
"""

import difflib
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Literal, NamedTuple

from bot.hami.installation.install import is_of_hami
from handlers.changes.words import HOW_TO_REVERT
from handlers.parsing.grammar import example_of, known_word, nearest, phrases_in
from handlers.parsing.slack_grammar import SUBJECT_OF, Named, filler, phrase_table, subject_in
from playbooks.fit.gpu_words import device_in, model_in
from playbooks.gather.subject import KINDS_OF_OWNERS, NOBODY_KNOWN, KnownNames
from playbooks.own.discovery import verbs

Says = Literal["", "thanks", "unsure", "several", "mine", "pasted"]

_VERB_OF = {"using": "gpus", "free": "gpus", "idle": "gpus"}  # of sections of `phrases.toml` that have another name
_WEAK = {"used": "using", "cluster": "digest"}  # sections of bare words, and those that they stand for
_SHOWN = ("revert", "oncall", "verbosity")
_CARDS = "idle", "using", "free", "gpus"
_OF_POD = "pending", "logs", "watch", "unwatch", "quota"
_TOKEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/@:=%-]*")
_CLOSE = 0.84
_NEAR, _LONGEST = 24, 400  # characters before a name, and of a sentence's other words, that are looked at
_TAIL = "._/@:=%-"
_NAME = re.compile(r"(?:[a-z0-9.-]+/)*(?=[a-z0-9./-]*[0-9/-])[a-z0-9][a-z0-9./-]*[a-z0-9]")
"""A word that looks like a pod's name: few words of a sentence have a digit, a hyphen or a slash."""
_SPACE = "(?:命名|名字|名称|名稱)(?:空间|空間)"
_NAMESPACE = re.compile(  # overlapping: of "in namespace ml" the first two words are none
    rf"(?=(?:(?<![\w-])(-n|--namespace|namespace|ns|in|for|of)[=\s:]+|({_SPACE})[\s是为為:]*)[`*_]*([a-z0-9][a-z0-9-]*)"
    rf"|(?<![a-z0-9-])([a-z0-9][a-z0-9-]*)[`*_]*\s*(?:namespace|ns\b|的?{_SPACE}|里|裡|中|下|的(?:配额|额度|pod)))"
)
_MARKED_AS_POD = re.compile(r"(?:\b(?:pods?|po|jobs?|workload|deployment|notebook)\b|/)\s*[`*_]*$")
_PASTED = re.compile(
    r"\b[IWEF]\d{4} \d\d:\d\d:\d\d|nodes? do not meet|"
    r"(?:[Ww]arning|[Nn]ormal|警告)\s+(?:[A-Z][a-z]+[A-Z]\w+|Scheduled)|"
    r"(?<!\d)\d+(?:/\d+ nodes are available| nodes? [A-Z][A-Za-z]+\(|/\d+ [A-Z][a-z]+[A-Z]\w+)|"
    r"\b(?:FilteringFailed|FailedScheduling|BindingFailed|FailedCreate|UnexpectedAdmissionError)\b.*\s\S+\s\S+"
)
"""The text of an event, a condition or a log line that was pasted."""
_WHY = re.compile(r"\bwhy\b|[为為](?:什[么麼]|啥|何)|什[么麼]原因|咋|怎[么麼]")
_WHY_NOT = re.compile(r"\bwhy (?:not|isn't it|doesn't it|can't it)\b|[为為]什[么麼]不(?:调度|分配|用|放|选)")
_GUESS = re.compile(
    r"^(?!.*(?:所有|全部|哪|\b(?:all|any|which|show|list)\b)).*"
    r"(?:\btoo (?:big|large|much|small|little|few)\b|\bnot enough\b|\bbecause of\b|"
    r"是不是|会不会|因[为為]|不[够足]|太[大小多少])"
)
"""A guess at what keeps a pod waiting."""
_HEALTH = re.compile(r"\b(?:ok(?:ay)?|fine|well|(?:un)?healthy|alive|dead|down|broken|wrong)\b|正常|健康|坏|故障")
_HOW_MUCH = re.compile(r"how (?:much|many) .*\bus(?:es?|ed|ing)\b|[用占]了?多少")
_OTHERS = r"\b(?:else|others?|elsewhere)\b|其他|其它|别的"
_MORE = re.compile(rf"{_OTHERS}|\b(?:there|namespace)\b|还有")
_IT = r"\b(?:its?|this|that|he|one)\b(?! (?:cluster|hami|sched|version))|它|[这那][个台](?!集群|调度)|上面|该"
_OF_IT = re.compile(r"\bits?\b|\b(?:this|that) (?:pod|node|job|one)\b|它")
_POINTS = re.compile(rf"{_IT}|\bthere\b|这里|那里")
_THANKS = re.compile("[🙏👍🎉❤😀🙂]")
_EMOJI = re.compile(r"(?<!\S)(?::(?:[a-z][a-z0-9_-]*|\+1|100):)+(?!\S)")
"""An emoji as Slack delivers it."""
_THANKFUL = re.compile(
    r"(?:\s*:(?:\+1|thumbsup|pray|heart|tada|clap|raised_hands|ok_hand|100|smile|slightly_smiling_face|"
    r"white_check_mark|skin-tone-\d):)+"
)
_UNIT = r"(gi|mi|gib|mib|gb|mb|gigs?|megs?|g|m|%)(?![a-z])"
_SHAPE = re.compile(rf"(?<![\w.])(\d+)\s*[x*×]\s*(\d+(?:\.\d+)?)\s*{_UNIT}", re.IGNORECASE)
_AMOUNT = re.compile(rf"\s*{_UNIT}", re.IGNORECASE)
_SIZE = re.compile(rf"(?<![\w.-])(\d+(?:\.\d+)?)\s*{_UNIT}", re.IGNORECASE)
_NUMBERS = ["a an one 一", "two 两 二", "three 三", "four 四", "five 五", "six 六", "seven 七", "eight 八"]
_WORDS_FOR = {word: number for number, words in enumerate(_NUMBERS, 1) for word in words.split()}
_MANY = re.compile(r"\d|\b(?:two|three|four|five|six|seven|eight)\b|[两二三四五六七八]")
_HOW_MANY = rf"(\d+|{'|'.join(_WORDS_FOR)})(?:\s*(?:whole|full|free|entire|idle|more))?\s*"
_OF_CARDS = ("(?:gpus?|cards?|devices?|张|块|卡)", "个(?!\\s*[一两二三四五六七八\\d])")  # 一个 8 卡的任务 asks for 8


class Meant(NamedTuple):
    """What a message asks: the words of a command, or `offers` to choose from and why, or a pasted text's `codes`."""

    words: list[str]
    offers: tuple[str, ...] = ()
    says: Says = ""
    codes: tuple[str, ...] = ()


def as_verb(text: str) -> str:
    """The verb of a change or of on-call (`revert`) that a sentence asks for, else empty; alone it changes nothing."""
    low = text.lower().strip(" `*_~.!?")
    if low.partition(" ")[0] in HOW_TO_REVERT:
        return HOW_TO_REVERT[0]
    if _PASTED.search(text):
        return ""
    said = next((section for section, pattern in _phrases().items() if pattern.search(low)), "")
    return said if said in _SHOWN else ""


# ------------------------------------------------------------------------------------------------------ sentences


def meant(text: str, names: KnownNames = NOBODY_KNOWN, about: Sequence[str] = (), pod: str = "") -> Meant:
    """What a message that is no command asks; `about` are the words that its thread is about, `pod` is its last pod."""
    plain = " ".join(_EMOJI.sub(" ", text).split()) or ("👍" if _THANKFUL.fullmatch(text) else text)
    bare = plain.lower().strip(" `*_~.!?。！？🙏👍🎉❤️😀🙂:+")[:_LONGEST]
    if not bare or _whole("hello").fullmatch(bare) or _whole("thanks").fullmatch(f"{bare} "):
        thanks = not _whole("hello").fullmatch(bare) if bare else bool(_THANKS.search(plain))
        return Meant([], says="thanks") if thanks else Meant(["help"])
    found = _found(plain, names)
    if found.pods and all(is_of_hami(pod.rpartition("/")[2]) and pod.count("/") > 1 for pod in found.pods):
        found = found._replace(
            pods=(), rest=f"{found.rest} {'nodes' if 'device-plugin' in found.pods[0] else 'scheduler'}"
        )
    if _PASTED.search(plain):
        pods = [pod for pod in found.pods if pod.rpartition("/")[2] in names.pods]
        if pods := [pod for pod in pods if not is_of_hami(pod.rpartition("/")[2])] or pods:  # who reports is named, too
            return _about_pods("why", pods)
        words = [word.rstrip(_TAIL) for word in _TOKEN.findall(plain)]
        named = [word for word in words if re.search(r"[a-z][A-Z]", word) and known_word(word)]
        return Meant([], says="pasted", codes=tuple(dict.fromkeys((*named, *phrases_in(plain)))))
    intents = _intents(found.rest)
    if not intents and (mended := _intents(spelt := " ".join(map(_spelt, found.rest.split())))):
        found, intents = found._replace(rest=spelt), mended
    if "changing" in intents:
        return _unsure(found, intents)
    return _word_meant(plain, found, intents, about) or _command(found, intents, about, pod) or _unsure(found, intents)


def _intents(rest: str) -> list[str]:
    return [_WEAK.get(section, section) for section, pattern in _phrases().items() if pattern.search(rest)]


def _command(found: Named, intents: Sequence[str], about: Sequence[str], pod: str) -> Meant | None:
    """The command of the first intent that there is one for, about what was named, or else about what is pointed at."""
    first = next((one for one in intents if one not in ("meaning", "fit", "wish")), "")
    of_pod = first in _OF_POD or (not first and (_WHY.search(found.rest) or _whole("soon").search(found.rest)))
    about = ["why", pod] if pod and of_pod and not subject_in(about).pods else about
    own = (part for part in found.rest.split(",") if _whole("own").search(part))
    is_own = first != "logs" and any(not (re.search(_IT, part) or _whole("kept").search(part)) for part in own)
    before = Named() if is_own else subject_in(about)
    if first in _SHOWN:
        return Meant([first])
    mine = not found.pods and bool(_whole("mine").search(found.rest)) and not about
    if first in ("watch", "unwatch"):
        pods = found.pods or before.pods
        nobody = Meant([], says="mine") if first == "watch" else Meant(["watch"])  # what is watched
        return _about_pods(first, pods) if pods else nobody
    if found.pods:
        return _about_pods("logs" if first == "logs" else "why", found.pods)
    begins, why = found.rest.partition(",")[0], _WHY.search(found.rest)
    of_cards = first in _CARDS and first in _intents(begins) and not (why or _OF_IT.search(begins))
    of_it = before.pods and _OF_IT.search(found.rest) and not of_cards
    asks = {"fit", "wish"} & {*intents} or about[:1] == ["fit"] or (found.type and (first == "free" or not intents))
    if cards := _cards(found, needs_fit=bool(of_it and (why or not _MANY.search(found.rest))) or not asks):
        return Meant(["fit", *cards, *(["-n", found.namespace] if found.namespace else [])])
    of_others = found.namespace or _HEALTH.search(found.rest)
    if before.pods and not of_others and ((of_it and why and found.nodes) or _WHY_NOT.search(found.rest)):
        return Meant(["why", before.pods[0]])
    if found.nodes:
        is_health = first in ("", "gpus") and (_HEALTH.search(found.rest) or (first and why))
        return _about_nodes(found.nodes, "nodes" if is_health else first, about)
    if mine and first in ("", "pending", "logs", "using", "nodes", "digest", "gpus", "latency"):
        return Meant([], says="mine")
    if first == "logs":
        return Meant(["logs", *before.pods])
    if about[:1] == ["fit"] and found.type and "fit" not in intents:
        return Meant([*_OF_ITS_TYPE.sub("", " ".join(about)).split(), "--type", found.type])
    if before.pods and first in ("", "nodes", "gpus") and _GUESS.search(found.rest):
        return Meant(["why", before.pods[0]])
    others = re.search(_OTHERS, found.rest)
    asked_of_it = ("", "pending", "status", "digest", *(("nodes", "latency", *_CARDS) if of_it else ()))
    if before.pods and not found.namespace and first in asked_of_it:
        if (first == "pending" and _MORE.search(found.rest)) or (not first and others):
            return Meant(["pending", before.of("namespace")])
        if first or any(_whole(one).search(found.rest) for one in ("and", "soon")) or _POINTS.search(found.rest):
            return Meant(["why", before.pods[0]])
    if (pod := _left_over(found)) and first in ("", "pending") and not about:
        return Meant(["why", f"{found.namespace}/{pod}" if found.namespace else pod])
    if before.nodes and (_POINTS.search(found.rest) or _whole("and").search(found.rest)) and not found.namespace:
        return Meant([about[0]]) if others else _about_nodes(before.nodes, first, about)
    return _overview(found, first, intents, about)


def _left_over(found: Named) -> str:
    """The one word of a question for a reason that stands in no other question: whom it is about."""
    if not _WHY.search(found.rest):
        return ""
    words = [word.rstrip(_TAIL) for word in _TOKEN.findall(found.rest)]
    left = [word for word in words if word not in filler() and word not in (found.namespace, "why")]
    return left[0] if len(left) == 1 and not left[0].isdigit() else ""


def _overview(found: Named, first: str, intents: Sequence[str], about: Sequence[str]) -> Meant | None:
    before = subject_in(about)
    if not first and found.namespace:
        verb = about[0] if about and SUBJECT_OF.get(about[0]) == "namespace" else "pending"
        return Meant([verb, found.namespace])
    if "fit" in intents and first in ("", "nodes", "gpus", "pending"):
        first = "free"
    if first in ("", "digest", "status") and found.type:
        first = "gpus"
    if not first:
        return Meant([*about]) if about and _whole("and").search(found.rest) else None
    verb = _VERB_OF.get(first, first)
    if verb == "gpus" and found.namespace and _HOW_MUCH.search(found.rest):
        return Meant(["quota", found.namespace])
    if verb == "gpus":
        return Meant([verb, *(["--idle"] if first == "idle" else ["--type", found.type] if found.type else [])])
    if verb in ("quota", "pending"):
        namespace = found.namespace or (before.of("namespace") if verb == "quota" or _MORE.search(found.rest) else "")
        return Meant([verb, *filter(None, [namespace])])
    return Meant([verb])


def _about_pods(verb: str, pods: Sequence[str]) -> Meant:
    if len(pods) == 1:
        return Meant([verb, pods[0]])
    return Meant([], tuple(f"{verb} {pod}" for pod in pods), "several")


def _about_nodes(nodes: Sequence[str], first: str, about: Sequence[str]) -> Meant:
    verb = about[0] if not first and about and SUBJECT_OF.get(about[0]) == "node" else "nodes"
    verb = "gpus" if first in _CARDS else verb
    if len(nodes) > 1:
        return Meant([], tuple(f"{verb} {node}" for node in nodes), "several")
    return Meant([verb, nodes[0], *(["--idle"] if first == "idle" else [])])


def _unsure(found: Named, intents: Sequence[str]) -> Meant:
    """Three commands that read: about what was named, then what the other words come near, then the usual ones."""
    near = nearest(first[:_NEAR], verbs()) if (first := found.rest.partition(" ")[0]) else []
    offers = [example_of(verb) for verb in near if SUBJECT_OF.get(verb) != "pod"]
    offers += [f"{verb} {pod}" for pod in found.pods[:1] for verb in ("why", "logs")]
    offers += [f"{verb} {node}" for node in found.nodes[:1] for verb in ("nodes", "gpus")]
    offers += [f"{verb} {found.namespace}" for verb in ("pending", "quota") if found.namespace]
    meant_by = (_VERB_OF.get(intent, intent) for intent in intents)
    offers += [verb for verb in meant_by if SUBJECT_OF.get(verb, "pod") != "pod" or verb in ("status", "digest")]
    return Meant([], tuple(dict.fromkeys((*offers, "gpus", "status", "pending")))[:3], "unsure")


# ----------------------------------------------------------------------------------------------------------- names


def _found(text: str, names: KnownNames) -> Named:
    """The names in a text; where it names nobody known, what looks like a pod's name."""
    low = _BY_NUMBER.sub(lambda hit: names.nodes.get(f"#{int(next(filter(None, hit.groups())))}", hit[0]), text.lower())
    low = _OF_TYPE.sub(lambda hit: f"{hit[1]} gpus {hit[2]}" if _type(hit[2], names) else hit[0], low)
    low = _TIMES.sub(lambda hit: f"{hit[2]} gpus {hit[1]}" if _type(hit[1], names) else hit[0], low)
    low = _HALF.sub(lambda hit: f" 50% {hit[1]}" if hit[1] in _CARD or _type(hit[1], names) else hit[0], low)
    namespace = next((one for hit in _NAMESPACE.finditer(low) if (one := _known_space(hit, names))), "")
    pods: dict[str, None] = {}
    maybe: dict[str, None] = {}
    nodes: dict[str, None] = {}
    kind, end, rest = "", 0, list[str]()
    waits = asked[1] if (asked := _WAITS.search(low)) else ""
    for token in _TOKEN.finditer(low):
        word, start = token[0].rstrip(_TAIL), token.start()
        if word in filler() and word not in names.pods:
            continue
        value = max(word.rfind("="), word.rfind(":")) + 1  # of involvedObject.name=trainer-0
        if value and (word[value:] in names.pods or word[value:] in names.nodes):
            word, start = word[value:], start + value
        name, before = word.rpartition("/")[2], word.rpartition("/")[0].rpartition("/")[2]
        leading = low[max(0, start - _NEAR) : start]
        no_model = _NO_MODEL.search(leading) or (word == waits and word not in names.types)
        gpu_type = "" if no_model else _type(word, names)
        marked = (gpu_type or name in names.pods) and _MARKED_AS_POD.search(leading)
        plain = word not in filler() or marked
        taken = marked or name in names.pods or name in names.owners or word in names.namespaces
        if before in ("", "node", "nodes", "no") and name in names.nodes:
            nodes[names.nodes[name]] = None
        elif gpu_type and not (taken or _AMOUNT.match(low, token.end())):
            kind = kind or gpu_type
        elif subjects := _subjects(word, namespace, names, plain=bool(plain)):
            pods |= dict.fromkeys(subjects)
        elif before in KINDS_OF_OWNERS and name:
            pods[word] = None
        elif word in names.namespaces and word not in filler():
            namespace = namespace or word
        elif leading.endswith("--") or word in filler():
            continue
        elif _NAME.fullmatch(word) and not _SIZE.fullmatch(word) and not (_PLAIN.fullmatch(word) or known_word(word)):
            maybe[word if "/" in word or not namespace else f"{namespace}/{word}"] = None
        else:
            continue
        between = low[end:start]
        rest += [_CALLED_NODE.sub(" ", between) if name in names.nodes else between, " "]
        end = token.start() + len(token[0].rstrip(_TAIL))
    others = "".join([*rest, low[end:]])
    if not (pods or nodes):
        pods = maybe
    return Named(tuple(pods), tuple(nodes), namespace, kind, " ".join(others.translate(_QUOTES).split())[:_LONGEST])


_BY_NUMBER = re.compile(
    r"\b(?:gpu[- ]?)?nodes? (?:no\.? |#)?(\d{1,5})\b|(?<!\d)(\d{1,5})\s?号[节机]|节点\s?(\d{1,5})(?!\d)"
)
_OF_TYPE = re.compile(r"\b(\d{1,3})\s?[x*×]\s?([a-z]\w*)")
_TIMES = re.compile(r"\b([a-z]{1,4}\d{1,4}[a-z]?)\s?[x*×]\s?(\d{1,3})\b(?!\s*[gm%])")
_HALF = re.compile(r"(?:\bhalf (?:of )?an? |半[张块个]\s?)([a-z][a-z0-9]*|显?卡)")
_CARD = "gpu", "card", "卡", "显卡"
_OF_ITS_TYPE = re.compile(r" --type[= ]\S+|(?<=\d)x[a-z][\w-]*(?= |$)|(?<=\dx)[a-z][\w-]*:", re.IGNORECASE)
_CALLED_NODE = re.compile(r"(?:\bnode|节点|机器|主机)[\s:`*_]*$")
_WAITS = re.compile(r"why (?:i|doe|ha|wa)s(?:n't)? ([a-z]\S*) (?:still )?(?:pending|stuck|waiting|queued|hanging)")
_NO_MODEL = re.compile(r"\b(?:code|port|line|pid|error)\s*[:=]?\s*$")
_PLAIN = re.compile(r"[\d./:-]+[a-z%]{0,3}|\d+x\d+\w*|[ap]m|24/7")
_SPECIAL = re.compile(r"[a-z][A-Z]|[/=]|[a-z]-[a-z]")
"""No word of a sentence: `NodeUnfitPod`, `hami.io/vgpu-node`, `card-cordoned`."""
_QUOTES = str.maketrans({**dict.fromkeys('`*_~?!()[]"', " "), "’": "'", "，": " ", "。": " ", "？": " ", "！": " "})


def _type(word: str, names: KnownNames) -> str:
    """The GPU type that a word names: one of the cluster's, or a model that vendors sell; empty for any other word."""
    singular = word.removesuffix("s")
    known = next((one.upper() for one in (word, singular) if one in names.types and not _SIZE.fullmatch(one)), "")
    return known or model_in(word) or device_in(word) or device_in(singular)


def _known_space(hit: re.Match[str], names: KnownNames) -> str:
    preposition, word = hit[1] in ("in", "for", "of"), hit[3] or hit[4]
    taken = not names.namespaces and not preposition and word not in filler()
    return word if word in names.namespaces or taken else ""


def _subjects(word: str, namespace: str, names: KnownNames, *, plain: bool) -> list[str]:
    """The pods, or the owner, of that name as a command has them; `plain`: also a name that could be any word."""
    *path, name = word.split("/")
    given = path[-1] if path and path[-1] in names.namespaces else namespace
    if not plain and not path:
        return []
    if spaces := names.pods.get(name):
        chosen = [space for space in spaces if space == given] or spaces
        return [f"{space}/{name}" for space in chosen]
    if owners := names.owners.get(name):
        return [one for one in owners if one.startswith(f"{given}/")] or [*owners]
    longer = [one for one in names.pods if one.startswith(f"{name}-")] if _NAME.fullmatch(name) else []
    return [f"{given}/{name}" if given else name] if longer else []


# ------------------------------------------------------------------------------------------- words of HAMi, requests


def _word_meant(text: str, found: Named, intents: Sequence[str], about: Sequence[str]) -> Meant | None:
    """`help WORD` for a question about a word, or for a word alone."""
    said = _TOKEN.findall(text)
    special = [word for word in (one.rstrip(_TAIL) for one in said) if _SPECIAL.search(word) and known_word(word)]
    asks = filler() | {"does", "mean", "means", "explain", "help", "tell"}
    rest = [word for word in said if word.lower() not in asks]
    if len(said) == 1 and known_word(text):
        return Meant(["help", known_word(text.strip(f"?!{_TAIL}"))])
    alone = len(rest) == 1 and not _intents(text.lower().replace(rest[0].lower(), ""))
    points = about and _POINTS.search(found.rest)
    if special and not found.nodes and ("meaning" in intents or alone or not (intents or found.pods or points)):
        return Meant(["help", special[0]])
    if "meaning" in intents and not (found.pods or found.nodes):
        no_names = {"what", "s", "meaning", "about", "is", "are", "a", "an", "the"}
        chinese = re.findall(r"[\u4e00-\u9fff]+", _phrases()["meaning"].sub(" ", found.rest))
        for words in ([one for one in some if one.lower() not in no_names] for some in (rest, said, chinese)):
            if words and (known := known_word(" ".join(words))):
                return Meant(["help", known])
    return None


def _cards(found: Named, *, needs_fit: bool) -> list[str]:
    """The words of `fit` for the GPUs that a message asks for; without a phrase that asks, only `2x16Gi` counts."""
    device = device_in(found.type)
    kind = ["--type", found.type] if found.type and not device else []

    def asked(count: object, size: str = "") -> list[str]:
        of = ":".join(filter(None, (device, size)))
        return [f"{count}x{of}" if of else str(count), *kind]

    if shape := _SHAPE.search(found.rest):
        return asked(shape[1], _size(shape[2], shape[3]))
    size = _SIZE.search(found.rest)
    many = re.search(rf"(?<![a-z0-9.]){_HOW_MANY}(?:{_OF_CARDS}|(?=\s|$))", found.rest) if found.type else None
    asked_for = (re.search(rf"(?<![a-z0-9.]){_HOW_MANY}{cards}", found.rest) for cards in _OF_CARDS)
    many = next(filter(None, asked_for), many)
    if needs_fit or not (many or size):
        return []
    count = (_WORDS_FOR.get(many[1]) or int(many[1])) if many else 1
    return asked(count, _size(size[1], size[2]) if size else "")


def _size(number: str, unit: str) -> str:
    return f"{number}%" if unit == "%" else f"{number}{unit[0].upper()}i"


@cache
def _vocabulary() -> Mapping[str, Sequence[str]]:
    """The words of phrases that ask what to read, and those around them, by their first letter."""
    asking = (row for section, row in phrase_table().items() if section not in ("changing", *_SHOWN))
    words = sorted({*re.findall(r"[a-z]{4,}", str([row.get("en") for row in asking])), *filler()})
    return {first: [word for word in words if word[0] == first] for first in {word[0] for word in words}}


def _spelt(word: str) -> str:
    """The word that a word nearly is, if it is one of those by which questions are read; else the word itself."""
    known = _vocabulary().get((typed := word.strip("?!.,'"))[:1], ())
    if len(typed) < 4 or typed in known or (typed.endswith("er") and {typed[:-1], typed[:-2]} & {*known}):
        return word
    return next(iter(difflib.get_close_matches(typed, known, n=1, cutoff=_CLOSE)), word)


@cache
def _whole(section: str) -> re.Pattern[str]:
    return re.compile("".join(phrase_table()[section]["pattern"]))


@cache
def _phrases() -> Mapping[str, re.Pattern[str]]:
    """By section: English stands between other letters, Chinese anywhere."""
    given = {section: words for section, words in phrase_table().items() if "en" in words}
    english = r"(?<![a-z0-9/-])(?:{})(?![a-z0-9/]|-[a-z0-9])"
    return {
        section: re.compile("|".join([english.format("|".join(words["en"])), *words.get("zh", ())]))
        for section, words in given.items()
    }
