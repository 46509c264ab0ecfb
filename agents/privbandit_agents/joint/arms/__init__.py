"""Jointly private agents for arms without a context."""

__all__: list[str] = []
