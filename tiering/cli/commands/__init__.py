"""The commands. Each file is named after its command, and has a function of that name.

Functions import modules that only they need, because all commands and help pages would start later otherwise.
"""
