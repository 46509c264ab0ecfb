"""Locally private classifiers on kernel features of public rows."""
