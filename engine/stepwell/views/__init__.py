"""What people and programs are shown of runs, schedules, contexts and differences."""
