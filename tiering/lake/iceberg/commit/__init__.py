"""Makes one snapshot of a round's write results, and publishes it by one request."""
