"""Adds the random name that each take-over writes beside its epoch."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    present = {column["name"] for column in sa.inspect(op.get_bind()).get_columns("lakeward_owner")}
    if "holder" not in present:
        op.add_column("lakeward_owner", sa.Column("holder", sa.String(64)))
