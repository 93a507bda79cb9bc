"""Messages to model values and back, how errors travel, the one server guard and the one way to open a channel."""
