"""Pure: what a run needs next, and what an outcome changes. No database, SDK, network or clock."""
