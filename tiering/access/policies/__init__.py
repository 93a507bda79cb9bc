"""What a policy file says of whom and of what: Cedar behind one small interface, asked once a class of names."""
