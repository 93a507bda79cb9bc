"""Steps of a story: what others do to lake tables by hand."""

from __future__ import annotations

from pyiceberg.table import Table

from support.worlds.stories.parts import StoryParts


class LakeDamage(StoryParts):
    """Lake tables that somebody changed beside Lakeward."""

    def damage(self) -> str | None:
        path, by_hand = self.pick().info.path, self.world.by_hand
        if not by_hand.exists(path):
            return None
        action = self.rng.choice(("drop", "rename", "roll back", "untag", "compact"))
        line = by_hand.line(path)
        if action == "drop":
            by_hand.drop(path)
        elif action == "rename":
            by_hand.rename(path, f"former-{next(self.numbers)}")
        elif action == "untag" and self.world.lake_format == "iceberg":
            _untag(self.world.iceberg_catalog().load_table(str(path)))
        elif action == "compact" and line:
            by_hand.rewrite(path)
        elif action == "roll back" and len(line) > 1:
            by_hand.roll_back(path, line[-2])
        return f"{action} {path}"


def _untag(table: Table) -> None:
    for tag in table.metadata.refs.keys() - {"main"}:
        table.manage_snapshots().remove_tag(tag).commit()
