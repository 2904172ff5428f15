"""One file per command; the only place that puts components together."""
