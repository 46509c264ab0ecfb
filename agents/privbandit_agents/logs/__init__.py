"""Logged data: contexts, choices and answers, the choices' probabilities, and estimates of other policies' values."""

__all__: list[str] = []
