"""Adds the rounds that the ledger no longer has, but whose files the lake still stores."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    if not sa.inspect(op.get_bind()).has_table("lakeward_former_rounds"):
        op.create_table(
            "lakeward_former_rounds",
            sa.Column("table_id", sa.BigInteger, primary_key=True, autoincrement=False),
            sa.Column("body", sa.JSON, nullable=False),
        )
