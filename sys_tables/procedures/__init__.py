"""The procedures, one module each; every module here is found and served."""
