"""The behaviour suite's backends, what each of them cannot do, and a deployment over any of them."""
