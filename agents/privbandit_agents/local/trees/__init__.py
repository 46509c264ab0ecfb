"""Locally private classification trees and histograms."""
