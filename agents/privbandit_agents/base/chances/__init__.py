"""How likely an action is: the law of a policy."""

__all__: list[str] = []
