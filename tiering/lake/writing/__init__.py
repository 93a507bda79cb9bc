"""What the writers of all formats have in common."""
