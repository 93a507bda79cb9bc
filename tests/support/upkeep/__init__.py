"""What tests of upkeep rounds share."""
