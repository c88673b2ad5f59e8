"""What holds for every test: durations are real ones, also where a test moves the clock."""

import freezegun

# Else `--durations` would measure the clock that a test has frozen, not the time that it took.
freezegun.configure(extend_ignore_list=["_pytest.timing"])
