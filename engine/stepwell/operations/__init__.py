"""The operations on runs: submit, decide, steer, schedule, examine."""
