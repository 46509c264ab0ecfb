"""Locally private classifiers that descend on noisy gradients."""
