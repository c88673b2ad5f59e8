"""A run as its driver holds it: its rows, its transcript, and the terms of its next call."""
