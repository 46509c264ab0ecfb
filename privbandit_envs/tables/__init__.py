"""Tables of people, in files and data frames, as they are.

Three nouns: a *table* (a lazy frame of polars, whatever it came from), a *schema* (the type, the bounds or levels and
the role of every column, and whether they are public), a *row of numbers* (the encoded context, in order of columns).
"""

from privbandit_envs.tables.encoding import Encoding
from privbandit_envs.tables.proposing import propose
from privbandit_envs.tables.schema import Schema

__all__ = ["Encoding", "Schema", "propose"]
