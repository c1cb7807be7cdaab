"""The MCP server: the official SDK on standard input and output."""

import asyncio
import importlib.metadata
import json
from collections.abc import AsyncIterable, Awaitable, Callable
from typing import Any, cast

import anyio
import mcp_types as types
import msgspec
from anyio.streams.memory import MemoryObjectSendStream
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from bot.errors import BotError, UsageError
from bot.report import Report, as_json
from bot.settings import load_settings
from bot.slack.render.prose import in_words
from bot.texts import Text, Texts
from bot.unexpected_errors import bugs_as_errors
from handlers.cluster_choice import ClusterChoice, open_sources
from handlers.mcp.capped import capped
from handlers.mcp.tools import (
    MANIFEST,
    MOST,
    USUAL,
    given_as_file,
    input_schema,
    manifest_of,
    output_schema,
    typed_words,
)
from handlers.parsing.grammar import Grammar, ParsedQuestion, read, unknown_verb
from playbooks.own import discovery
from playbooks.own.discovery import is_verb, playbook_of, verbs
from playbooks.playbook import Playbook

_INSTRUCTIONS = (
    "Read-only answers about GPU scheduling on Kubernetes clusters that run HAMi. Ask `why` about one pod, `pending` "
    "about all that wait. `findings` has the cause first; each quotes its evidence. `gaps` says what could not be "
    "read: conclude nothing from a gap."
)


async def serve(tools: "Tools") -> None:
    """Answers until the client closes its end."""
    server: Server[Any] = Server(
        "hami-bot",
        version=importlib.metadata.version("hami-bot"),
        instructions=_INSTRUCTIONS,
        on_list_tools=tools.listed,
        on_call_tool=tools.called,
    )
    async with stdio_server() as (reading, writing), asyncio.TaskGroup() as tasks:
        understood, messages = anyio.create_memory_object_stream[SessionMessage | Exception]()
        reader = tasks.create_task(_read(reading, understood, writing.send))
        await server.run(messages, writing, server.create_initialization_options())
        reader.cancel()


async def _read(
    lines: AsyncIterable[SessionMessage | Exception],
    understood: MemoryObjectSendStream[SessionMessage | Exception],
    answer: Callable[[SessionMessage], Awaitable[None]],
) -> None:
    """Hands on what is a message and answers what is none: the SDK drops such a line, and its client waits for ever."""
    async with understood:
        async for line in lines:
            if isinstance(line, SessionMessage):
                await understood.send(line)
            elif isinstance(line, ValidationError) and (refused := refusal(line)):
                await answer(SessionMessage(refused))


def refusal(error: ValidationError) -> types.JSONRPCError | None:
    """The answer to a line that is no message, under its id where it has one; None for a notification.

    With half a surrogate a line is no JSON for the SDK, yet its id can be read.
    """
    wrong, *others = error.errors(include_url=False)
    is_json = wrong["type"] != "json_invalid"
    try:
        lacking = (one["input"] for one in (wrong, *others) if one["type"] == "missing" and len(one["loc"]) == 2)
        request: Any = next(lacking, None) if is_json else json.loads(wrong["input"])
    except (ValueError, RecursionError):
        request = None
    fields = cast("dict[str, Any]", request) if isinstance(request, dict) else {"id": None}
    if "id" not in fields or (not is_json and not wrong["input"].strip()):
        return None
    number = fields["id"]
    known = type(number) is int or (isinstance(number, str) and number.isprintable())  # so without half a surrogate
    code = types.INVALID_REQUEST if is_json else types.PARSE_ERROR
    said = types.ErrorData(code=code, message=str(wrong["msg"]))
    return types.JSONRPCError(jsonrpc="2.0", id=number if known else None, error=said)


def chosen(named: tuple[str, ...]) -> dict[str, Playbook]:
    """The playbooks to offer: those named, else the usual ones, with the first of a team's own in place of the last.

    Raises UsageError for a verb that is none, and for too many.
    """
    if len(named) > MOST:
        raise UsageError(
            Text("error-mcp.too-many-tools", count=len(named), most=MOST), example=f"mcp --tools {','.join(USUAL)}"
        )
    for verb in named:
        if not is_verb(verb):
            raise unknown_verb(verb, verbs(), "hami-bot")
    if named:
        return {verb: playbook_of(verb) for verb in named}
    own = sorted(source.verb for source, error in discovery.import_all() if error is None)[:1]
    return {verb: playbook_of(verb) for verb in (*USUAL[: MOST - len(own)], *own)}


class Tools:
    """What the client is offered, and what a call gives."""

    def __init__(self, where: ClusterChoice, playbooks: dict[str, Playbook], say: Texts) -> None:
        self._where = where
        self._playbooks = playbooks
        self._say = say
        self._clusters = _clusters(where)

    async def listed(
        self, _context: ServerRequestContext[Any], _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        """Every tool, with the schemas of its call and of its answer."""
        answer = output_schema()
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=verb,
                    description=f"{playbook.summary} In a shell: hami-bot {playbook.example}",
                    input_schema=input_schema(playbook, self._clusters),
                    output_schema=answer,
                    annotations=types.ToolAnnotations(read_only_hint=True, open_world_hint=False),
                )
                for verb, playbook in self._playbooks.items()
            ]
        )

    async def called(
        self, _context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        """The report, as JSON text and as structured content; or what went wrong, for people."""
        try:
            with bugs_as_errors():
                report = capped(await self._answer(params.name, dict(params.arguments or {})), self._say)
        except BotError as error:
            words = "\n".join(filter(None, in_words(error, self._say)))
            return types.CallToolResult(content=[types.TextContent(text=words)], is_error=True)
        text = as_json(report)
        structured = cast("dict[str, Any]", msgspec.json.decode(text))
        return types.CallToolResult(content=[types.TextContent(text=text)], structured_content=structured)

    async def _answer(self, verb: str, arguments: dict[str, Any]) -> Report:
        playbook = self._playbooks.get(verb)
        if playbook is None:
            raise unknown_verb(verb, tuple(self._playbooks), "hami-bot")
        where = self._where
        if self._clusters and "cluster" in arguments:
            where = where._replace(cluster=str(arguments.pop("cluster")))
        text = arguments.pop(MANIFEST, None) if manifest_of(playbook) else None
        defaults = {} if text is None else {"default_map": given_as_file(playbook, text)}
        grammar = Grammar("hami-bot", tuple, context_settings=defaults)
        asked: ParsedQuestion = read(grammar, typed_words(playbook, arguments))
        async with open_sources(where) as sources:
            snapshot = await asked.playbook.gather(asked.request, sources)
        return await asyncio.to_thread(asked.playbook.report, snapshot, self._say)


def _clusters(where: ClusterChoice) -> tuple[str, ...]:
    """The clusters of the settings, where a question has to name one of several."""
    if where.cluster or where.recording or where.kubeconfig or where.context:
        return ()
    settings = load_settings(where.config)
    names = tuple(settings.clusters) if settings else ()
    return names if len(names) > 1 else ()
