"""Questions about a cluster, answered without changing it."""
