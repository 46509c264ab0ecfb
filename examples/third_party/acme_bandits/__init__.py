"""Reminders for the customers of a shop: a world, and two private agents that learn when to send one."""
