"""Agents without privacy: the ground that private ones are measured against."""
