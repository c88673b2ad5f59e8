"""What holds for every test: durations are real ones, and Ctrl-C is an interrupt."""

import signal

import freezegun

# Else `--durations` would measure the clock that a test has frozen, not the time that it took.
freezegun.configure(extend_ignore_list=["_pytest.timing"])

# A shell that starts a command in the background lets it ignore Ctrl-C, and so would all that the
# command starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
