"""Making one snapshot of a round's write results, and publishing it by one request."""
