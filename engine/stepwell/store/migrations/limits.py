"""Version 2: limits of tokens, cost and time; summaries."""

from typing import Any

import sqlalchemy as sa

_TYPES = {"max_cost": sa.BigInteger, "reserved_cost": sa.BigInteger}
_RUN = ("max_tokens", "max_cost", "max_seconds", "window")
_COUNTS = ("active_ms", "reserved_tokens", "reserved_cost", "overflow_at")


def upgrade(operations: Any) -> None:
    """Add columns only: older runs have no such limits and no summaries."""
    for name in _RUN:
        operations.add_column("run", sa.Column(name, _TYPES.get(name, sa.Integer)))
    for name in _COUNTS:
        zero = sa.Column(name, _TYPES.get(name, sa.Integer), nullable=False, server_default="0")
        operations.add_column("run", zero)
    zero = sa.Column("active_ms", sa.Integer, nullable=False, server_default="0")
    operations.add_column("transition", zero)
    operations.add_column("message", sa.Column("covers", sa.Integer))
    operations.add_column("call", sa.Column("shortened_seq", sa.Integer))
