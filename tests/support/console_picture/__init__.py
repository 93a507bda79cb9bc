"""The picture of the console in the README, drawn from its page in Chromium."""
