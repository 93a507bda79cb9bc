"""Adds the leader: the coordinator that owns the store, its address, and the cluster that the store is about."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "lakeward_leader",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("address", sa.String(300), nullable=False),
        sa.Column("beats", sa.BigInteger, nullable=False),
        sa.Column("cluster", sa.String(300), nullable=False),
        if_not_exists=True,
    )
