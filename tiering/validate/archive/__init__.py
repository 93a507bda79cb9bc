"""Proofs that can be handed over: what a validation found, signed, with a program that checks it again (docs/prove.md)."""
