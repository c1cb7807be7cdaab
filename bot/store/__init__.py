"""The store, the bot's memory: one database, SQLite beside the process or PostgreSQL for more than one replica."""

from bot.store.base import NoStoreError, StoreError
from bot.store.store import Store, open_beside, open_store

__all__ = [
    "NoStoreError",
    "Store",
    "StoreError",
    "open_beside",
    "open_store",
]
