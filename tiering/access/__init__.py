"""Who may do what: identities, how they are proved, and grants."""
