"""Decisions by a policy file: Cedar behind one small interface, asked once per class of names."""
