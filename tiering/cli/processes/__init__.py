"""The processes of Lakeward: here, and only here, all parts meet."""
