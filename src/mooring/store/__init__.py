"""Revisions, transactions and watch over exchangeable backends."""
