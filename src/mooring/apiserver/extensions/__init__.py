"""Admission that a cluster's own policies and webhooks add to what is built in; ``chain.py`` has their order."""
