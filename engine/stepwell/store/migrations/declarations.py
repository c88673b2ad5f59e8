"""Version 3: the declaration of a call's tool when the call began, for a lost outcome."""

import sqlalchemy as sa
from alembic.operations import Operations


def upgrade(operations: Operations) -> None:
    """Add the column. Of older calls nothing is known, so their tools' present word counts."""
    operations.add_column("call", sa.Column("recovery", sa.String))
