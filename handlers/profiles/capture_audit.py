"""Who had the bot take a profile of another program than HAMi's, with its rights: in the audit log, refused or not."""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from bot.errors import BotError, NotAllowed
from bot.store import StoreError
from bot.store.audit import Audit
from handlers.parsing.question import Question
from playbooks.profile.request import Request

log = logging.getLogger(__name__)


@asynccontextmanager
async def audited(audit: Audit, question: Question, cluster: str, request: Request) -> AsyncGenerator[None]:
    """Inside it the profile is taken: `requested` is written before, and after it `taken`, `refused` or `failed`.

    One that is cancelled, or that the process does not live to take, stays `requested`. HAMi's own profiles are what
    the bot is for: of those nothing is written. Raises StoreError where `requested` cannot be written: nothing is taken
    then. An outcome that cannot be written costs nobody the profile.
    """
    if request.target is None:
        yield
        return
    target = f"{cluster}:{request.target}" if cluster else str(request.target)
    detail = {"kind": request.kind, "seconds": request.seconds, "channel": question.channel}

    async def append(outcome: str) -> None:
        await audit.append(actor=question.user, action="profile", target=target, outcome=outcome, detail=detail)

    async def note(outcome: str) -> None:
        try:
            await append(outcome)
        except StoreError as error:
            log.error("%s's %s profile of %s was %s: %s", question.user, request.kind, target, outcome, error)  # noqa: TRY400  # it says what to do

    await append("requested")
    try:
        yield
    except BotError as error:
        await note("refused" if isinstance(error, NotAllowed) else "failed")
        raise
    await note("taken")
