"""One file per command. None knows another; `cli/support/` has what they share, and puts components together."""
