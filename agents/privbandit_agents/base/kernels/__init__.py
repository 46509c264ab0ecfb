"""Kernel features and models of public rows, and filters that move them by private means."""

__all__: list[str] = []
