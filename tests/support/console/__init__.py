"""Chromium before the console: how tests open it, and how they walk through the pages."""
