"""The offsets files that this deployment had a Fluss cluster write: which there are, and which nobody needs any more."""
