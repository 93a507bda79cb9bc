"""The health of a lake table for its readers: the measures that its metadata gives, and the score that follows from them."""
