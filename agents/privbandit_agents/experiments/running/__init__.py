"""Where jobs run: the cores of this machine, or a cluster."""

__all__: list[str] = []
