"""Jointly private agents for sparse linear bandits in many dimensions."""
