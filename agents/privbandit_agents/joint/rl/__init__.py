"""Jointly private agents from reinforcement learning."""
