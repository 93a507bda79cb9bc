"""The commands, a file each, named as they are."""
