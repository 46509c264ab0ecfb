"""Locally private classification trees and histograms."""

__all__: list[str] = []
