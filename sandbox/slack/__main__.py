"""Serves an empty workspace until interrupted, to try an app of your own: `python -m sandbox.slack --port 8400`."""

import asyncio
import signal

import click

from sandbox.slack import SlackServer


@click.command()
@click.option("--port", type=int, default=0, help="The port on 127.0.0.1; a free one unless given.")
@click.option("--lenient", is_flag=True, help="Enforce neither scopes nor rate limits nor block rules.")
def main(port: int, *, lenient: bool) -> None:
    """Serve a Slack-compatible workspace on 127.0.0.1 until interrupted."""
    asyncio.run(_serve(SlackServer(port, strict=not lenient)))


async def _serve(server: SlackServer) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with server as slack:
        click.echo(slack.url)
        click.echo(f"API URL         {slack.api_url}")
        click.echo(f"bot token       {slack.bot_token}")
        click.echo(f"app token       {slack.app_token}")
        click.echo(f"signing secret  {slack.signing_secret}")
        await stopped.wait()


if __name__ == "__main__":
    main()
