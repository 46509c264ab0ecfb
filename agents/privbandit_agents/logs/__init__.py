"""Logged data: contexts, choices and answers, the choices' probabilities, and estimates of other policies' values.

Three nouns: a *log* (decisions with their probabilities), a *propensity* (the probability of a decision), an
*estimate* (of another policy's value).
"""

__all__: list[str] = []
