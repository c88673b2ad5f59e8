"""Public ids of the parts of a run: the run's id and a number."""


def call_id(run: str, number: int) -> str:
    """The id of a run's tool call."""
    return f"{run}-{number}"


def question_id(run: str, number: int) -> str:
    """The id of a question to a person about a call of this run."""
    return f"{run}-q{number}"
