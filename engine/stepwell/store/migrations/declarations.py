"""Version 3: what a call's tool declared, when the call began, for an outcome that is lost."""

import sqlalchemy as sa
from alembic.operations import Operations


def upgrade(operations: Operations) -> None:
    """Add the column. Of older calls nothing is known, so their tools' present word counts."""
    operations.add_column("call", sa.Column("recovery", sa.String))
