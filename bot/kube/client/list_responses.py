"""Answers of an API server as our narrow models: one object, or a list page by page."""

import gc
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import msgspec

from bot.errors import NotFound, Troubled
from bot.kube.client.failures import Request, quoted
from bot.kube.models import Kind, Resource
from bot.texts import Text

R = TypeVar("R", bound=Resource)
T = TypeVar("T")

UNREADABLE = (ValueError, RecursionError)
"""What msgspec raises: its own errors and UnicodeDecodeError are ValueErrors; nesting without end is the other."""


class ListMeta(msgspec.Struct, frozen=True, gc=False, rename={"next": "continue", "version": "resourceVersion"}):
    next: str = ""
    version: str = ""


class Page(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """One page of a list. `items` has no default: an answer without it is no list and must not pass for empty."""

    items: list[T] | None
    metadata: ListMeta = ListMeta()


def segment(name: str) -> str:
    """The name as a part of a path; what could never be one names no object."""
    if name in ("", ".", "..") or "/" in name or "%" in name:
        raise NotFound(
            Text("error-kube.cannot-be-name-object", name=repr(name)), hint=Text("error-kube.check-spelling")
        )
    return quote(name, safe="")


def resource(kind: Kind[R]) -> str:
    """What access rules call the kind: `deployments.apps`."""
    return f"{kind.plural}.{kind.group}" if kind.group else kind.plural


def left_out(kind: Kind[Any], bad: Mapping[str, str]) -> list[str]:
    """What could not be read of a list: `pods ml/trainer-0: why`."""
    return [f"{resource(kind)} {name}: {why}" for name, why in bad.items()]


def decoded(request: Request, body: bytes, shape: type[T]) -> T:
    """The answer. Raises Troubled for one that is none of an API server's."""
    try:
        return msgspec.json.decode(body, type=shape)
    except UNREADABLE as error:
        start = quoted(body[:80].decode(errors="replace"))
        raise Troubled(
            Text(
                "error-kube.not-answer-kubernetes-api-server", request=str(request), why=str(error), start=repr(start)
            ),
            hint=Text("error-kube.check-it-is-the-api-server"),
        ) from error


def page_of(request: Request, body: bytes, kind: Kind[R], bad: dict[str, str]) -> Page[R]:
    """The page's objects; one that does not decode is named in `bad`, and the others stay readable."""
    shape: type[Page[R]] = Page[kind.type]  # pyright: ignore[reportInvalidTypeArguments]  # known at run time only
    try:
        with _collector_paused():
            return msgspec.json.decode(body, type=shape)
    except UNREADABLE:
        page = decoded(request, body, Page[msgspec.Raw])
    items: list[R] = []
    for raw in page.items or ():
        try:
            items.append(msgspec.json.decode(raw, type=kind.type))
        except UNREADABLE as error:
            bad[_label(raw)] = quoted(str(error))
    return Page(items, page.metadata)


@contextmanager
def _collector_paused() -> Generator[None]:
    """For making many objects that all stay: 50,000 pods decode in 0.6 s, or in 1.3 s with searches for garbage."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _label(raw: msgspec.Raw) -> str:
    """`namespace/name`, as far as the object's JSON can be read at all."""
    try:
        found = msgspec.json.decode(raw, type=Resource)
    except UNREADABLE:
        return "(its name cannot be read)"
    return f"{found.namespace}/{found.name}" if found.namespace else found.name
