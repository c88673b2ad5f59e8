"""Leases, steps and workers: a run is claimed, driven, and given back."""
