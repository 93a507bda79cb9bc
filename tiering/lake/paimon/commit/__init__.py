"""Publishing a round as one snapshot."""
