"""Adds the proofs of tables, which `sys.table_proofs` shows."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "lakeward_proofs",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
        sa.Column("body", sa.JSON, nullable=False),
        sqlite_autoincrement=True,
        if_not_exists=True,
    )
