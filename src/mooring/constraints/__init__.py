"""What matches: tolerations, node and label selectors, pod-affinity terms, versions, CEL over taints and nodes."""
