"""Games with local agents: what a user's device sends, whatever the agent and the record."""

__all__: list[str] = []
