"""A Fluss cluster whose lake is Paimon, with Fluss's own plugin, and that plugin's writer, committer and reader without Flink."""
