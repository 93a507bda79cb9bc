"""The offsets files that a Fluss cluster wrote for this deployment: their list, and the clean-up of those that are not needed any more."""
