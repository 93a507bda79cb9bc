"""Pure decisions about upkeep of lake tables: when it may begin, its rounds, requests and pauses (DESIGN 7, Upkeep)."""
