"""The nouns of the field as frozen values, and the rules for names and states. Nothing here does I/O."""
