"""Jointly private agents for linear bandits."""
