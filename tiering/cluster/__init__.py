"""Where data comes from: the interface (`base`) and the embedded cluster. Apache Fluss comes beside it."""
