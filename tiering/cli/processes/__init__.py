"""The processes of Lakeward, and their composition roots: only here are all parts put together."""
