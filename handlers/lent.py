"""What the composition root lends to everything that listens to Slack."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple

from bot.errors import WhichCluster
from bot.slack.gateway import Gateway
from bot.slack.outbox import Outbox
from bot.slack.work import Work
from bot.store import Store
from bot.texts import Language, Texts
from playbooks._playbook import Sources


class Lent(NamedTuple):
    """`channels` names the cluster that a question in a channel is about when it names none, `usual` that of questions
    elsewhere: it is empty if there are several, or none has a name.
    """

    gateway: Gateway
    outbox: Outbox
    store: Store
    work: Work
    open_sources: Callable[[str], AbstractAsyncContextManager[Sources]]
    clusters: tuple[str, ...]
    channels: Mapping[str, str]
    say: Texts
    bot_user: str
    now: Callable[[], float]
    usual: str = ""

    def cluster_of(self, named: str, channel: str = "") -> str:
        """The cluster that is meant: what is kept by cluster has it under this name, whoever it came from."""
        return named or self.channels.get(channel, "") or self.usual

    def the_cluster(self, named: str, channel: str) -> str:
        """As `cluster_of`, for what cannot be done without knowing it. Raises WhichCluster."""
        cluster = self.cluster_of(named, channel)
        if not cluster and len(self.clusters) > 1:
            raise WhichCluster(sorted(self.clusters))
        return cluster

    def texts(self, language: Language | None) -> Texts:
        """The words in the language that was asked for, else in the bot's."""
        return Texts(language) if language else self.say
