"""Pure decisions: (context, record, event) -> `Change`. No I/O, no clock, no ids."""
