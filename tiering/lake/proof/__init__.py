"""Proofs of the rows of a lake table without system columns: checksums, footers of its data files, and the chain in its marker."""
