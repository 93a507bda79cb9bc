"""A real Fluss cluster on this machine, from jars of Maven Central: to try things with, never for data that somebody needs."""
