"""Adds the keys: the one that signs the tickets of reads, so that a restarted coordinator and a standby accept them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "lakeward_keys",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("key", sa.LargeBinary, nullable=False),
        if_not_exists=True,
    )
