"""The command line.

Three nouns: a *verb* (one command), an *option*, an *exit code*.
"""

__all__: list[str] = []
