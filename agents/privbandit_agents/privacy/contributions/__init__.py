"""What one user may contribute: records clipped, packed, and how sensitive a sum of them is.

Three nouns: a *contribution* (one user's term of a sum), a *clip*, a *sensitivity* (how far one user moves the sum).
"""

__all__: list[str] = []
