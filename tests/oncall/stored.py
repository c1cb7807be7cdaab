"""A cause as the store of incidents holds it."""

from bot.triage.cause import Cause

CAUSE = Cause("0123456789abcdef", "card-insufficient-memory", "No card is large enough", "warning", "ml/trainer-0")
