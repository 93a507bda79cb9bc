"""Parts that the writers of all lake formats share."""
