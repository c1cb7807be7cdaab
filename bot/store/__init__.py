"""What the bot remembers: one database, SQLite beside the process or PostgreSQL for more than one replica."""

from bot.store.engine import NoStoreError, StoreError
from bot.store.store import Store, open_audit, open_changes, open_marks, open_profiles, open_store

__all__ = [
    "NoStoreError",
    "Store",
    "StoreError",
    "open_audit",
    "open_changes",
    "open_marks",
    "open_profiles",
    "open_store",
]
