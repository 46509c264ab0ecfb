"""Jointly private agents for assortments under the multinomial logit model."""
