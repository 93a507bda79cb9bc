"""Fluss's own protocol, as a client speaks it: which calls there are, how they are framed, who is asked, and what errors mean."""
