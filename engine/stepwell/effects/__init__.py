"""Carrying out one command: a model call or tool calls, with their threads and time limits."""
