"""Pure: a run's next command, and the change after its outcome. No database, network or clock."""
