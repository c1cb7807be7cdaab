"""Small pieces that claims and actions share: lists of names, amounts, commands."""

from collections.abc import Sequence

from bot.hami.install import COMPONENT_LABEL, PLUGIN_COMPONENT
from bot.texts import Texts

_SHOWN = 3


def names(say: Texts, listed: Sequence[str], shown: int = _SHOWN) -> str:
    """`a, b, c` or `a, b and 5 more`."""
    if len(listed) <= shown:
        return ", ".join(listed)
    return say("words.and-more", names=", ".join(listed[: shown - 1]), more=len(listed) - shown + 1)


def mib(amount: int) -> str:
    """`24,000 MiB`."""
    return f"{amount:,} MiB"


def plugin_pods_command(node: str) -> str:
    """The command that shows the device plugin's pods of one node."""
    return f"kubectl get pods -A -l {COMPONENT_LABEL}={PLUGIN_COMPONENT} --field-selector spec.nodeName={node}"
