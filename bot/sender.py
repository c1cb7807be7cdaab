"""What this process calls itself in the outbox."""

import contextlib
import hashlib
import logging
import socket
import uuid
from collections.abc import Generator
from typing import NamedTuple

_LONGEST_NAME = 64  # of the outbox's owner

log = logging.getLogger(__name__)


class Sender(NamedTuple):
    """`name` stands in the outbox; `alone`: no other process here uses the store."""

    name: str
    alone: bool


@contextlib.contextmanager
def sender(store_url: str) -> Generator[Sender]:
    """What this process calls itself in the outbox, and whether it is the only one here that uses the store.

    Alone it has this machine's name, so that after a crash its successor here goes on at once with what was being done,
    and not when the lease has lapsed.

    That is right only while nobody else bears the name: two living senders would take a message out of each other's
    hands and post it twice. Pods are named apart, but two processes of one machine are not, as when the new one starts
    while the old one drains. So whoever bears the name holds a lock, which the kernel frees when a process ends,
    however it ends; who finds it held, or cannot lock here, gets a name of its own and waits for leases like any other
    replica. The lock is an abstract socket, which needs no file: hosts that share a name share their network as well,
    or are separate pods with names of their own.
    """
    name = socket.gethostname()[:_LONGEST_NAME]
    digest = hashlib.sha256(f"{name} {store_url}".encode()).hexdigest()
    with socket.socket(socket.AF_UNIX) as lock:
        try:
            lock.bind(f"\0hami-bot-{digest}")
        except OSError as error:
            log.info("another process sends as %s (%s): this one waits for leases", name, error.strerror)
            yield Sender(uuid.uuid4().hex, alone=False)
            return
        yield Sender(name, alone=True)
