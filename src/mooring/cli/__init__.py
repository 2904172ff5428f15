"""The command `mooring`: ``main.py`` finds a command in `commands/`; `support/` holds shared code."""
