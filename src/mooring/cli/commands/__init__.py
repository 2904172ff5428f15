"""One file per command. Commands do not import each other; `cli/support/` holds shared code and builds components."""
