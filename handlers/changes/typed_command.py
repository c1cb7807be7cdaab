"""A change in words as they are typed in Slack: the reason comes last and keeps its quotes."""

import re
import shlex

from bot.changes.kinds import KINDS
from handlers.changes.draft import Draft
from handlers.changes.words import HOW_TO_REVERT, Raise, words_of
from handlers.parsing.slack_words import join_words, plain_text, split_words

_BECAUSE = re.compile(r"\sbecause\s+", re.IGNORECASE)
_CHANGE = re.compile(rf"\s*(?:--(?:cluster|lang)[= ]\S+\s+)*(?:{'|'.join((*KINDS, *HOW_TO_REVERT))})\b")
_REVERTING = re.compile(rf"\b(?:{'|'.join(kind.values.revert for kind in KINDS.values())})\s*$")


def is_change(words: str) -> bool:
    """Whether they ask for a change, or what is set."""
    return _CHANGE.match(words) is not None


def is_reverting(words: str) -> bool:
    """Whether a change that is asked for in these words is a revert: that is not put off."""
    return _REVERTING.search(_BECAUSE.split(words, maxsplit=1)[0]) is not None


def split_change(text: str) -> list[str]:
    """The words of text as Slack delivers it. In the reason no quotes are read. Raises UsageError."""
    head, *reason = _BECAUSE.split(text, maxsplit=1)
    words = split_words(head)
    return [*words, "because", *plain_text(reason[0]).split()] if reason and reason[0].strip() else words


def typed_words(request: Raise) -> str:
    """What a person types in Slack to ask for it."""
    return as_typed(words_of(request))


def draft_words(draft: Draft) -> str:
    """The same of a change that was offered, on its cluster wherever that is typed."""
    words = typed_words(draft.request)
    return f"--cluster {draft.cluster} {words}" if draft.cluster else words


def as_typed(words: str) -> str:
    """Words that a shell reads, such as a button's, as a person types them in Slack."""
    try:
        head = shlex.split(words)
    except ValueError:  # none of ours: it is told when it is read
        return words
    if "because" not in head:
        return words
    at = head.index("because")
    return " ".join([join_words(head[:at]), *head[at:]])
