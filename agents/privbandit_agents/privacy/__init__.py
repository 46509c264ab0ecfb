"""Mechanisms, accounting, the ledger and the auditor: the only place that draws privacy noise.

The default noise comes from numpy's generators and floating-point arithmetic. It is for simulation: the laws are
right, but a deployment needs samplers that are safe against attacks on floating point (``noise="secure"``).
"""
