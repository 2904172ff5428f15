"""The lowest layer: versions, feature gates, clock, logging, metrics, processes."""
