"""A CEL engine that knows nothing of Kubernetes: parse, check, estimate, compile, evaluate."""
