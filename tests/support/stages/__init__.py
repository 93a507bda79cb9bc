"""The stages of `make test` and `make test-all`: which tests each of them runs, and the one verdict at the end."""
