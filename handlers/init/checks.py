"""Each answer of `hami-bot init`, checked by the links of `doctor` that it is about."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from pydantic import SecretStr

from bot.errors import BotError, UsageError, WrongValue
from bot.kube.client.connect import open_cluster
from bot.settings import variable
from bot.settings.schema import SlackSettings
from bot.settings.values import channel_id, fits_a_header, never_in_clear
from bot.slack.calls import open_client
from bot.slack.gateway import Gateway
from bot.texts import Text
from handlers.doctor.clusters import examine_sources
from handlers.doctor.links import Link, Name, broken
from handlers.doctor.slack import examine_channel, examine_socket, examine_token
from playbooks.gather.scheduling import gather_install
from playbooks.playbook import Sources


class FoundCluster(NamedTuple):
    """A cluster that answers; where HAMi is there, empty if it was not found. Without a context it is this pod's."""

    name: str
    context: str = ""
    kubeconfig: Path | None = None
    hami_namespace: str = ""
    scheduler_deployment: str = ""


async def check_bot_token(token: str) -> list[Link]:
    """Whether Slack takes it, and its scopes."""
    try:
        async with _gateway(token) as gateway:
            return (await examine_token(gateway))[0]
    except WrongValue as error:
        return [_no_secret("slack-token", error)]


async def check_app_token(token: str, bot_token: str) -> list[Link]:
    """Whether Slack opens connections with it."""
    try:
        fits_a_header(SecretStr(token))
    except WrongValue as error:
        return [_no_secret("socket-mode", error)]
    async with _gateway(bot_token) as gateway:
        return [await examine_socket(gateway, token)]


async def check_channel(channel: str, bot_token: str) -> list[Link]:
    """Whether the bot may post there. Nothing is posted."""
    try:
        channel_id(channel)
    except WrongValue as error:
        return [Link("slack-channel", "failed", error.text, Text("init.channel-fix"), channel)]
    async with _gateway(bot_token) as gateway:
        _, scopes = await examine_token(gateway)
        return [await examine_channel(gateway, channel, may_join="channels:join" in scopes)]


async def check_cluster(wanted: FoundCluster) -> tuple[list[Link], FoundCluster]:
    """The links of the cluster of that context, and what was found; by its context's name unless it has one."""
    try:
        async with await open_cluster(
            name=wanted.name, kubeconfig=wanted.kubeconfig, context=wanted.context
        ) as cluster:
            sources = Sources(cluster, ports=cluster)
            links = await examine_sources(sources, None)
            install = (await gather_install(sources)).install
            deployment = install.deployment.name if install.deployment else ""
            found = wanted._replace(
                name=cluster.name, hami_namespace=install.namespace, scheduler_deployment=deployment
            )
            return links, found
    except BotError as error:
        name = wanted.name or wanted.context or "in-cluster"
        return [broken("cluster", error, name)], wanted._replace(name=name)


@asynccontextmanager
async def _gateway(bot_token: str) -> AsyncGenerator[Gateway]:
    """Raises WrongValue for what can be no token, which is not repeated, and UsageError for a wrong address."""
    given = variable("SLACK__API_URL")
    try:
        api_url = never_in_clear(given).rstrip("/") + "/" if given else SlackSettings.model_fields["api_url"].default
    except WrongValue as error:
        raise UsageError(Text("error.at", place="HAMI_BOT_SLACK__API_URL", why=error.text)) from error
    token = fits_a_header(SecretStr(bot_token)).get_secret_value()
    async with open_client(api_url, token) as (client, session):
        yield Gateway(client, session)


def _no_secret(name: Name, error: WrongValue) -> Link:
    return Link(name, "failed", error.text)
