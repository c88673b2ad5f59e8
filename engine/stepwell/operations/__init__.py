"""What people do with runs: submit, decide, steer, schedule, examine."""
