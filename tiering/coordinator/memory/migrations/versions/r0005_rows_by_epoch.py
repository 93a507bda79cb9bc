"""Gives a table's newest rounds and commits by an index: without it each round sorted all rows of its table."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("lakeward_rounds", "lakeward_commits"):
        present = {index["name"] for index in sa.inspect(op.get_bind()).get_indexes(name)}
        if f"{name}_by_epoch" not in present:
            op.create_index(f"{name}_by_epoch", name, ["table_id", "tiering_epoch"])
        if f"ix_{name}_table_id" in present:  # the new one finds the rows of a table, too
            op.drop_index(f"ix_{name}_table_id", name)
