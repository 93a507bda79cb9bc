"""Text from outside: secrets are masked, control characters are shown, length is cut (`redact`, `visible_text`)."""
