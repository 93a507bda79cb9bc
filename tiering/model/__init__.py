"""Tables, rounds, splits and the other values of tiering as frozen dataclasses, with the rules for names and states. It does no I/O."""
