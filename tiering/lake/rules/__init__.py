"""The rules of the round that know no lake format: base check, history, commit check, reconciliation, sweep. Pure."""
