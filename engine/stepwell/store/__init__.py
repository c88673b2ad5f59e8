"""The record of every run: one SQLite file, written by one connection, read by any number."""

from stepwell.store.store import TRIES, Store

__all__ = ["TRIES", "Store"]
