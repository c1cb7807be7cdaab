"""The MCP server on standard input and output (official SDK): verbs are its tools, reports its answers."""

import asyncio
import importlib.metadata
import json
from collections.abc import AsyncIterable, Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import anyio
import click
import mcp_types as types
import msgspec
from anyio.streams.memory import MemoryObjectSendStream
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from msgspec.structs import replace
from pydantic import ValidationError

from bot.errors import BotError, UsageError, bugs_as_errors
from bot.report import Report, as_json, gap, in_words
from bot.settings import load_settings
from bot.slack.render.prose import in_words as error_in_words
from bot.texts import Text, Texts, clauses
from handlers.cluster_choice import ClusterChoice, open_sources
from handlers.parsing.grammar import Grammar, ParsedQuestion, read, unknown_verb
from playbooks.fit.manifest import STANDARD_INPUT, Manifest, ManifestFile
from playbooks.own import discovery
from playbooks.own.discovery import find, verbs
from playbooks.playbook import Playbook

_INSTRUCTIONS = (
    "Read-only answers about GPU scheduling on Kubernetes clusters that run HAMi. Ask `why` about one pod, `pending` "
    "about all that wait. `findings` has the cause first; each quotes its evidence. `gaps` says what could not be "
    "read: conclude nothing from a gap."
)


async def serve(tools: "Tools") -> None:
    """Answers the MCP client until it closes its end."""
    server: Server[Any] = Server(
        "hami-bot",
        version=importlib.metadata.version("hami-bot"),
        instructions=_INSTRUCTIONS,
        on_list_tools=tools.list_tools,
        on_call_tool=tools.call_tool,
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
    """The answer to a line that is no message, with the line's id if it has one; None for a notification. The SDK takes
    a line with half a surrogate for no JSON, but its id can be read.
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


def offered_playbooks(named: tuple[str, ...]) -> dict[str, Playbook]:
    """The playbooks to offer: those named, else the usual ones, of which a team's own first playbook replaces the last.
    Raises UsageError for an unknown verb, and for more than `MOST`.
    """
    if len(named) > MOST:
        raise UsageError(
            Text("error-mcp.too-many-tools", count=len(named), most=MOST), example=f"mcp --tools {','.join(USUAL)}"
        )
    for verb in named:
        if verb not in verbs():
            raise unknown_verb(verb, verbs(), "hami-bot")
    if named:
        return {verb: find(verb) for verb in named}
    own = sorted(source.verb for source, error in discovery.import_all() if error is None)[:1]
    return {verb: find(verb) for verb in (*USUAL[: MOST - len(own)], *own)}


class Tools:
    """The tools that the MCP client is offered, and the answers to its calls."""

    def __init__(self, where: ClusterChoice, playbooks: dict[str, Playbook], say: Texts) -> None:
        self._where = where
        self._playbooks = playbooks
        self._say = say
        self._clusters = _clusters(where)

    async def list_tools(
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

    async def call_tool(
        self, _context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        """The report that answers a call, as JSON text and as structured content; or what went wrong, for people."""
        try:
            with bugs_as_errors():
                report = capped(await self._answer(params.name, dict(params.arguments or {})), self._say)
        except BotError as error:
            words = "\n".join(filter(None, error_in_words(error, self._say)))
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
        file = manifest_of(playbook)
        text = arguments.pop(MANIFEST, None) if file else None
        if not isinstance(text, str | None):
            raise UsageError(Text("error-mcp.manifest-is-no-text", text=repr(text)))
        # As if a shell had read it from standard input.
        given = {} if text is None else {playbook.verb: {file: [Manifest(STANDARD_INPUT, text)]}}
        grammar = Grammar("hami-bot", tuple, context_settings={"default_map": given} if given else {})
        asked: ParsedQuestion = read(grammar, typed_words(playbook, arguments))
        async with open_sources(where) as sources:
            snapshot = await asked.playbook.gather(asked.request, sources)
        return await asyncio.to_thread(asked.playbook.report, snapshot, self._say)


def _clusters(where: ClusterChoice) -> tuple[str, ...]:
    if where.cluster or where.recording or where.kubeconfig or where.context:
        return ()
    settings = load_settings(where.config)
    names = tuple(settings.clusters) if settings else ()
    return names if len(names) > 1 else ()


MOST = 8
"""The most tools a server offers: each takes room in the client's context."""
USUAL = ("why", "fit", "pending", "nodes", "gpus", "quota", "status", "tune")
MANIFEST = "manifest"
_TEXT: dict[str, Any] = {"type": "string"}


def input_schema(playbook: Playbook, clusters: Sequence[str]) -> dict[str, Any]:
    """The schema of a tool's call. `clusters` are those to choose from; empty if the server reads only one."""
    taken = _parameters_of(playbook)
    properties: dict[str, Any] = {}
    for name, parameter in taken.items():
        schema = _schema(parameter.type) or _TEXT
        if parameter.nargs == -1 or parameter.multiple:
            schema = {"type": "array", "items": schema}
        parts = [parameter.metavar or "", getattr(parameter, "help", None) or ""]
        properties[name] = schema | {"description": " ".join(filter(None, parts))}
    if manifest_of(playbook):
        properties[MANIFEST] = _TEXT | {"description": "Pods, or what has pod templates, in place of a file."}
    required = [name for name, parameter in taken.items() if parameter.required]
    if clusters:
        properties["cluster"] = _TEXT | {"enum": list(clusters), "description": "Which cluster to read."}
        required.append("cluster")
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def output_schema() -> dict[str, Any]:
    """The schema of a report (docs/report.schema.json), with an object at its root as the protocol demands."""
    schema = msgspec.json.schema(Report)
    return {**schema["$defs"]["Report"], "$defs": schema["$defs"]}


def manifest_of(playbook: Playbook) -> str:
    """The name of the playbook's parameter that takes a manifest's file in a shell; empty if it has none."""
    return next(
        (parameter.name or "" for parameter in playbook.parameters if isinstance(parameter.type, ManifestFile)), ""
    )


def typed_words(playbook: Playbook, arguments: Mapping[str, Any]) -> list[str]:
    """The call's arguments as words in a shell; a value that begins with a hyphen is no option. Raises UsageError."""
    taken = _parameters_of(playbook)
    if unknown := sorted(set(arguments) - set(taken)):
        known = ", ".join(taken) or "none"
        raise UsageError(
            Text("error-mcp.has-no-parameter", verb=playbook.verb, unknown=repr(unknown[0])),
            hint=Text("error-mcp.its-parameters", known=known),
        )
    options, rest = list[str](), list[str]()
    for name, parameter in taken.items():
        value = arguments.get(name)
        if value is None:
            continue
        flag, is_list = max(parameter.opts, key=len), parameter.nargs == -1 or parameter.multiple
        if isinstance(parameter, click.Option) and parameter.is_flag:
            if not isinstance(value, bool):
                raise UsageError(Text("error-mcp.true-false", name=name, value=repr(value)))
            options += [flag] if value else []
            continue
        if is_list and not isinstance(value, list):
            raise UsageError(Text("error-mcp.list-texts", name=name, value=repr(value)))
        given = [_as_word(name, item) for item in cast("list[Any]", value if is_list else [value])]
        if isinstance(parameter, click.Option):
            options += [f"{flag}={choice}" for choice in given]
        else:
            rest += given
    return [playbook.verb, *options, "--", *rest]


def _parameters_of(playbook: Playbook) -> dict[str, click.Parameter]:
    """The parameters that a call may name: none that has a file read."""
    return {
        parameter.name: parameter
        for parameter in playbook.parameters
        if parameter.name and _schema(parameter.type) is not None
    }


def _schema(kind: Any) -> dict[str, Any] | None:
    match kind:
        case click.Choice():
            return _TEXT | {"enum": list(cast("click.Choice[str]", kind).choices)}
        case click.IntRange():
            limits = {"minimum": kind.min, "maximum": kind.max}
            return {"type": "integer"} | {name: value for name, value in limits.items() if value is not None}
        case click.types.BoolParamType():
            return {"type": "boolean"}
        case click.types.IntParamType():
            return {"type": "integer"}
        case click.types.FloatParamType():
            return {"type": "number"}
        case click.types.StringParamType():
            return _TEXT
        case _:
            return None


def _as_word(name: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise UsageError(Text("error-mcp.text-number", name=name, value=repr(value)))
    return str(value)


MOST_BYTES = 96 * 1024
"""The most bytes of a report's JSON. Clients take some 25,000 tokens of an answer, of about four bytes each."""


def capped(report: Report, say: Texts, most: int = MOST_BYTES) -> Report:
    """The report itself if its JSON has at most `most` bytes; a larger one is shortened. The last rows of each table go
    first, then quotes, then the last findings and gaps. A gap says what was left out.
    """
    if _size(report) <= most:
        return report
    cut = report
    for smaller in _smaller(report):
        left_out = gap(say("mcp.answer"), _left_out(report, smaller, most), Text("mcp.cut-hint", verb=report.playbook))
        cut = in_words(replace(smaller, gaps=(*smaller.gaps, left_out)), say)
        if _size(cut) <= most:
            break
    return cut


def _smaller(report: Report) -> Iterator[Report]:
    longest = max((len(table.rows) for table in report.tables), default=0)
    left = report
    while longest:
        longest //= 2
        tables = tuple(replace(table, rows=tuple(table.rows[:longest])) for table in report.tables)
        left = replace(report, tables=tables)
        yield left
    one_quote = tuple(replace(finding, evidence=finding.evidence[:1]) for finding in left.findings)
    left = replace(left, findings=one_quote)
    yield left
    for count in range(len(left.findings) - 1, 0, -1):
        yield replace(left, findings=left.findings[:count], gaps=left.gaps[:count])


def _left_out(whole: Report, left: Report, most: int) -> Text:
    pairs = (
        (len(before.rows), len(after.rows), before.title)
        for before, after in zip(whole.tables, left.tables, strict=True)
    )
    parts = [Text("mcp.rows", kept=kept, count=count, table=table) for count, kept, table in pairs if kept < count]
    quotes, kept = (sum(len(finding.evidence) for finding in report.findings) for report in (whole, left))
    parts += [Text("mcp.quotes", kept=kept, count=quotes)] if kept < quotes else []
    count, kept = len(whole.findings), len(left.findings)
    parts += [Text("mcp.findings", kept=kept, count=count)] if kept < count else []
    count, kept = len(whole.gaps), len(left.gaps)
    parts += [Text("mcp.gaps", kept=kept, count=count)] if kept < count else []
    return Text("mcp.cut", size=most // 1024, parts=clauses(parts))


def _size(report: Report) -> int:
    return len(as_json(report).encode())
