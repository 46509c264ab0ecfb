"""Jointly private agents for assortments under the multinomial logit model."""

__all__: list[str] = []
