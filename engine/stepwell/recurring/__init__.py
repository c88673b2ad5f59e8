"""Pure: when something recurring is due, and what becomes of it."""
