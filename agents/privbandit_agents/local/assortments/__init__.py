"""Locally private assortments."""
