"""Time: worlds that change, and feedback that comes late."""
