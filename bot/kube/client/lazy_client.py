"""Imports the official client without the parts of it that nobody here uses.

`import kubernetes.aio` runs `kubernetes/__init__.py`, which imports the whole synchronous client as well: requests,
oauthlib, websocket, 260 modules and 9 MB more. `importlib.util.LazyLoader` leaves such a package unexecuted until
somebody touches one of its names, so whoever wants the rest of the client later gets all of it.

`kubernetes.aio.client.ApiClient` takes pydantic and dateutil. `kubernetes.aio.config` imports it for two functions that
nobody here calls: a promise of the class does as well, because that package looks its names up late.

Of the 1.3 s of processor time that a cold `why` on 5,000 nodes takes, both together save 0.25 s; without the promise
0.1 s are left of it, without the lazy loader nothing.
"""

import importlib.util
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

_SYNCHRONOUS = ("client", "config", "dynamic", "watch", "stream", "utils", "leaderelection", "informer")
_ASYNCHRONOUS = ("config", "dynamic", "watch", "stream", "leaderelection")
_DEFERRED = {f"kubernetes.{name}" for name in _SYNCHRONOUS} | {f"kubernetes.aio.{name}" for name in _ASYNCHRONOUS}


class _Deferring:
    """A finder of the deferred packages only; everything else is left to the usual ones."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, _target: ModuleType | None = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path) if name in _DEFERRED else None
        if spec and spec.loader:
            spec.loader = importlib.util.LazyLoader(spec.loader)
        return spec


@contextmanager
def unused_parts_deferred() -> Generator[None]:
    """Within it, importing `kubernetes` executes no more than what is asked for of it."""
    sys.meta_path.insert(0, _Deferring)
    try:
        yield
    finally:
        sys.meta_path.remove(_Deferring)


@contextmanager
def promised(module: ModuleType, name: str) -> Generator[None]:
    """Within it, whoever imports that class of the module gets a function that looks it up when it is called."""

    def promise(*args: Any, **named: Any) -> Any:
        return getattr(module, name)(*args, **named)

    setattr(module, name, promise)
    try:
        yield
    finally:
        delattr(module, name)
