"""What every layer stands on: versions, feature gates, clock, logging, metrics."""
