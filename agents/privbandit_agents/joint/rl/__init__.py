"""Jointly private agents from reinforcement learning."""

__all__: list[str] = []
