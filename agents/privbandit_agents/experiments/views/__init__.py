"""How results are shown.

Three nouns: a *table* (for the terminal and for files), a *line* (a mean with its interval, in a panel of a figure), a
*page* (that a browser opens; TensorBoard's is a board).
"""

__all__: list[str] = []
