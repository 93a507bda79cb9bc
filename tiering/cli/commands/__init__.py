"""The commands. Each file is named after its command."""
