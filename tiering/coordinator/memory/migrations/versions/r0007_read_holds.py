"""Adds what open reads need, so that a restarted coordinator and a standby keep it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "lakeward_read_holds",
        sa.Column("hold_id", sa.String(64), primary_key=True),
        sa.Column("body", sa.JSON, nullable=False),
        if_not_exists=True,
    )
