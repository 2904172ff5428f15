"""What matches: tolerations, node selectors, label selectors, pod-affinity terms, versions, and CEL over taints and nodes."""
