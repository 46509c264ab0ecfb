"""What every agent is made of, and what those of one family share.

Three nouns: an *agent* (``select_action``, ``update``), a *guarantee*, a *record* (context, action, feedback of one
user).
"""

__all__: list[str] = []
