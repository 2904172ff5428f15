"""The command `mooring`: ``main.py`` finds a command in `commands/`, and `support/` has what commands share."""
