"""Quota usage: ``accounting.py`` writes it together with each object, ``recount.py`` recomputes it when in doubt."""
