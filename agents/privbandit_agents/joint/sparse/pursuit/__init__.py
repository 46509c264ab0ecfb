"""Matching pursuit with private selection."""
