"""Offline comparisons: classifiers that are fitted once, their accuracy on a test set, tables, figures, statements."""
