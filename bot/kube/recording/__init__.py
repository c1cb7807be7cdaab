"""Recordings of a cluster (`hami-bot.recording/v1`): written, redacted, and read as a cluster."""
