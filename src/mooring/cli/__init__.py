"""The command `mooring`: ``main.py`` finds a command in `commands/`; `support/` holds shared code."""

PLUGIN = "kubectl mooring"
"""The name of the command when kubectl runs it."""
