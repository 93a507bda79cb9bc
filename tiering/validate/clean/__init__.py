"""Checks of lake tables with a clean layout: bucket and offsets come from the footers of their files."""
