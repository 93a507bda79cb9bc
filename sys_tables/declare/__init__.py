"""What system tables and procedures are: columns, parameters, the registry, the reference pages."""
