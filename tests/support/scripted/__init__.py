"""A Fluss cluster that a script plays, for releases whose server cannot be had."""
