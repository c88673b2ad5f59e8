"""Pure: when a schedule is due, and the decision on each due time."""
