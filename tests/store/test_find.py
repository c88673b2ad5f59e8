"""Finding: a person's word for a run or a question means one of them, or is an error."""

from collections.abc import Callable

import pytest

from stepwell.errors import UnknownApproval, UnknownRun
from stepwell.state.records import RunRow
from stepwell.store import Store, find
from stepwell.views.runs import ApprovalView
from tests.store.stepping import Stepping

ONE = "01KPXG3SB0QRSTVWXYZ0123456"
TWO = "01KPXG3SB0QRSTVWXYZ0123499"
THREE = "01KPZZ3SB0QRSTVWXYZ0123456"


@pytest.fixture
def number(store: Store) -> Callable[..., int]:
    def _number(text: str) -> int:
        with store.reading() as connection:
            return find.run_number(connection, text)

    return _number


@pytest.fixture
def question(store: Store) -> Callable[..., ApprovalView]:
    def _question(text: str, **options: bool) -> ApprovalView:
        with store.reading() as connection:
            return find.question(connection, text, **options)

    return _question


def test_a_run_by_id_by_beginning_and_last(
    begin: Callable[..., RunRow], number: Callable[..., int]
) -> None:
    for id_ in (THREE, ONE, TWO):
        begin(id=id_)
    assert [number(id_) for id_ in (THREE, ONE, TWO)] == [1, 2, 3]
    assert number("01KPZZ") == number("01kpzz") == 1
    assert number("last") == 3


@pytest.mark.parametrize("text", ["01KPXG", "01KPXG3SB0QRSTVWXYZ01234", "0"])
def test_an_ambiguous_beginning_names_the_candidates(
    begin: Callable[..., RunRow], number: Callable[..., int], text: str
) -> None:
    for id_ in (ONE, TWO, THREE):
        begin(id=id_)
    with pytest.raises(UnknownRun, match=f"Several.*{ONE}"):
        number(text)


@pytest.mark.parametrize("text", ["01KQ", "", "%", "_", "1 OR 1=1", "01KPXG%", ONE + "0", "größe"])
def test_what_means_no_run(
    begin: Callable[..., RunRow], number: Callable[..., int], text: str
) -> None:
    begin(id=ONE)
    with pytest.raises(UnknownRun, match="lists them"):
        number(text)


def test_there_is_no_last_run_in_an_empty_database(number: Callable[..., int]) -> None:
    with pytest.raises(UnknownRun, match="no run yet"):
        number("last")


def test_a_key_belongs_to_a_workflow(store: Store, begin: Callable[..., RunRow]) -> None:
    begin(key="k")
    second = begin("other", key="k")
    with store.reading() as connection:
        assert find.run_with_key(connection, "other", "k") == second.number
        assert find.run_with_key(connection, "w", "K") is None


def test_a_question_by_id_or_as_the_only_one_of_its_run(
    store: Store, question: Callable[..., ApprovalView]
) -> None:
    run = Stepping(store)
    run.record(run.replied(("wire", {"amount": 1})))
    run.settle()
    id_ = run.snapshot.run.id
    for text in (f"{id_}-q1", id_, id_[:20].lower(), "last", "last-q1"):
        assert question(text).id == f"{id_}-q1"
    for text in (f"{id_}-q2", f"{id_}-q", f"{id_}-1"):
        with pytest.raises((UnknownApproval, UnknownRun)):
            question(text)


def test_several_questions_are_named(store: Store, question: Callable[..., ApprovalView]) -> None:
    run = Stepping(store)
    run.record(run.replied(("wire", {"amount": 1}), ("wire", {"amount": 1})))
    run.settle()
    id_ = run.snapshot.run.id
    with pytest.raises(UnknownApproval, match=f"{id_}-q1, {id_}-q2"):
        question("last")
    assert question("last-q2").call == f"{id_}-2"


def test_a_run_without_a_question(
    store: Store, question: Callable[..., ApprovalView], begin: Callable[..., RunRow]
) -> None:
    begin()
    with pytest.raises(UnknownApproval, match="no open question"):
        question("last")
