"""The system tables, one module each; every module here is found and served."""
