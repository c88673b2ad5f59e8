"""What a driver holds of a run: its rows, its transcript, and the terms of its next call."""
