"""What people ask for: one module a procedure that changes something."""
