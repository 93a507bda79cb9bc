"""The commands. Each file is named after its command, and has a function of that name."""
