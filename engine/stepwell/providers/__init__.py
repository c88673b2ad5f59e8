"""Adapters to model providers, one file each; `registry` lists them."""
