"""Who had the bot take a profile of another program than HAMi's, with its rights: in the audit log, refused or not."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from bot.errors import BotError, NotAllowed
from bot.store.audit import Audit
from handlers.question import Question
from playbooks._profile_request import Request


@asynccontextmanager
async def audited(audit: Audit, question: Question, cluster: str, request: Request) -> AsyncGenerator[None]:
    """Inside it the profile is taken: `requested` is written before, and after it `taken`, `refused` or `failed`.

    One that is cancelled, or that the process does not live to take, stays `requested`. HAMi's own profiles are what
    the bot is for: of those nothing is written. Raises StoreError where the log cannot be written, and what is inside.
    """
    if request.target is None:
        yield
        return
    target = f"{cluster}:{request.target}" if cluster else str(request.target)
    told = {"kind": request.kind, "seconds": request.seconds, "channel": question.channel}

    async def note(outcome: str) -> None:
        await audit.append(actor=question.user, action="profile", target=target, outcome=outcome, detail=told)

    await note("requested")
    try:
        yield
    except BotError as error:
        await note("refused" if isinstance(error, NotAllowed) else "failed")
        raise
    await note("taken")
