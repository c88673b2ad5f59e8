"""Runs, schedules, contexts and differences as people and programs see them."""
