"""Makes the history of Kubernetes' API as data: see ``__main__.py``."""
