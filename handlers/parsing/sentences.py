"""Sentences that ask about one pod: `Why is my pod ml/trainer-0 still pending?` is `why ml/trainer-0`.

So is `为什么 ml/trainer-0 一直 pending？`: what is Chinese in a sentence is no name.

Nothing is guessed: the words around the pod's name are known ones, or the person is asked which word it is.
"""

import re
from collections.abc import Sequence
from itertools import pairwise

from bot.errors import UsageError
from bot.texts import Text
from handlers.parsing.grammar import from_kubectl
from handlers.parsing.slack_grammar import build_grammar, understand
from playbooks.own.discovery import is_verb, playbook_of
from playbooks.own.interface import OwnPlaybookError

_WHY = "why"
_AROUND = "`*_~.,;:?!()[]"
"""What stands around a word in a sentence, or marks it up, and in no name."""
_AROUND_A_POD = (
    "a an the my our your his her their this that it its i we you there "
    "is isn't isnt are aren't was wasn't be been being do does doesn't doesnt did didn't has hasn't have haven't "
    "had will won't wont would can can't cant cannot could couldn't not never no still yet just now again already "
    "so long for to of on in at from with by and or since today please "
    "pod pods job deployment workload container replica gpu gpus card cards node device "
    "pending running run runs start starts started starting stuck wait waits waiting hang hangs hanging ready "
    "schedule scheduled scheduling unscheduled unschedulable fail fails failed failing crash crashes crashing "
    "blocked refused rejected get gets getting come comes coming up work works working wrong happening"
)
_FILLER = frozenset(_AROUND_A_POD.split())
_NAMESPACE = ("namespace", "ns")
_NAME = re.compile(r"(?:[a-z0-9.-]+/)*(?=[a-z0-9./-]*[0-9/-])[a-z0-9][a-z0-9./-]*")
"""What looks like a pod's name: few words of a sentence have a digit, a hyphen or a slash."""
_WHY_IN_CHINESE = re.compile(
    "[为為爲](?:什[么麼]|甚[么麼]|啥|何|毛)|(?:什[么麼]|啥)原因|原因是|何故|"
    "(?:怎[么麼]|咋)(?:[了啦啊还還不没沒老总總会會]|回事|一直|[这這那][么麼])|咋$"
)
_HELP_IN_CHINESE = re.compile("(?:使用)?(?:帮助|幫助|说明|說明)|怎[么麼](?:使)?用")
_SPACE_NAMED = "(?:命名|名字|名称|名稱)(?:空间|空間)"
_NAMESPACE_BEHIND = re.compile(rf"(?<![a-z0-9-])([a-z0-9][a-z0-9-]*)\s*(?:[这這][个個])?{_SPACE_NAMED}(?!\s*[a-z0-9])")
_NAMESPACE_BEFORE = re.compile(rf"{_SPACE_NAMED}[\s是为為:]*([a-z0-9][a-z0-9-]*)")
_LATIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9./_-]*")
_IS_OPTION = re.compile("--?[a-z]")


def wants_pod(verb: str) -> bool:
    """Whether the verb's question is about one pod."""
    try:
        return is_verb(verb) and any(parameter.name == "pod" for parameter in playbook_of(verb).parameters)
    except OwnPlaybookError:
        return False


def is_complete(words: Sequence[str]) -> bool:
    """Whether the words are a question as they stand."""
    try:
        understand(words)
    except UsageError:
        return False
    return True


def from_verb(words: list[str]) -> list[str]:
    """The words from a reading verb on; whatever was said before `why` is dropped, and Chinese questions are English.

    Backticks around them are dropped too, as none of those verbs takes free text.
    """
    words = [*from_kubectl(words)]
    bare = [word.strip(_AROUND).lower() for word in words]
    if bare and bare[0] in build_grammar().commands:
        return words
    if bare and is_verb(bare[0]):
        start = 0
    elif _WHY in bare and all(word.isalpha() or "'" in word for word in bare[: bare.index(_WHY)] if word):
        start = bare.index(_WHY)
    else:
        return _from_chinese(words)
    return [bare[start], *(word.strip("`") if word.startswith("`") else word for word in words[start + 1 :])]


def _from_chinese(words: list[str]) -> list[str]:
    """The English words of a Chinese question; any other words as they are."""
    first = next((number for number, word in enumerate(words) if _IS_OPTION.match(word)), len(words))
    sentence, options = " ".join(words[:first]), words[first:]
    if _HELP_IN_CHINESE.fullmatch(sentence.strip(_AROUND)):
        return ["help"]
    if not _WHY_IN_CHINESE.search(sentence):
        return words
    for namespace in (_NAMESPACE_BEHIND, _NAMESPACE_BEFORE):
        sentence = namespace.sub(rf" {_NAMESPACE[0]} \1 ", sentence)
    named = [word for word in _LATIN.findall(sentence) if word.lower().strip(_AROUND) not in _FILLER]
    return [_WHY, *named, *options]


def plain_question(words: list[str]) -> list[str]:
    """The question that a sentence about a pod asks, perhaps without its pod; any other words as they are.

    Raises UsageError when several of its words may be the pod.
    """
    if not words or not wants_pod(words[0]) or is_complete(words):
        return words
    first = next((number for number, word in enumerate(words) if word.startswith("-")), len(words))
    said, options = [word.strip(_AROUND) for word in words[1:first]], words[first:]
    for before, name in pairwise(said):
        if before.lower() in _NAMESPACE and name.lower() not in _FILLER:
            options = [*options, "-n", name]
            said = [word for word in said if word not in (before, name)]
            break
    left = [word for word in said if word and word.lower() not in _FILLER]
    named = [word for word in left if _NAME.fullmatch(word)]
    about = named if len(named) == 1 else left
    if len(about) > 1:
        listed = ", ".join(about)
        text = Text("error-command.which-word-is-the-pod", listed=listed)
        raise UsageError(text, example=f"{words[0]} {about[0]}")
    return [words[0], *about, *options]
