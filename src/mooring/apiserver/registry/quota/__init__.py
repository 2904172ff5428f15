"""Usage of ResourceQuotas: ``accounting.py`` writes it with each object, ``recount.py`` computes it when in doubt."""
