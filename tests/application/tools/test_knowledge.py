import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stepwell.errors import ArgumentsError
from tools import knowledge
from tools.knowledge import search_knowledge_base


def sources(query: str, **more: Any) -> list[str]:
    return [found["source"] for found in search_knowledge_base(query=query, **more)]


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Writes documents of the test's own."""
    monkeypatch.setenv("STEPWELL_KNOWLEDGE", str(tmp_path))

    def write(
        name: str,
        text: str,
        title: str = "A title",
        department: str = "hr",
        last_updated: str = "2026-01-02",
    ) -> None:
        head = f"---\ntitle: {title}\ndepartment: {department}\nlast_updated: {last_updated}\n---\n"
        (tmp_path / name).write_text(head + text, encoding="utf-8")

    return write


@pytest.mark.parametrize(
    ("query", "source"),
    [
        ("How many days of annual leave do I have?", "annual-leave.md"),
        ("hotel and meals", "travel-expenses.md"),
        ("the VPN certificate has expired", "vpn.md"),
        ("lamp arrived broken, refunding", "refunds.md"),
        ("RECEIPTS", "travel-expenses.md"),
    ],
)
def test_the_best_document_comes_first(query: str, source: str) -> None:
    assert sources(query)[0] == source


def test_a_passage_has_everything_an_answer_needs() -> None:
    [found] = search_knowledge_base(query="certificate expired", max_results=1)
    assert found["title"] == "Reaching the workshop's network from outside"
    assert "certificate expired" in found["snippet"]
    assert 0 < found["relevance_score"] < 1
    assert (found["source"], found["last_updated"]) == ("vpn.md", "2026-04-14")


def test_scores_fall_from_the_first_to_the_last() -> None:
    scores = [found["relevance_score"] for found in search_knowledge_base(query="customer days")]
    assert len(scores) == 5
    assert scores == sorted(scores, reverse=True)
    assert scores[0] > scores[-1]


def test_only_as_many_as_wanted_and_only_of_the_department() -> None:
    assert len(sources("days weeks", max_results=2)) == 2
    assert sources("hotel", department="hr") == []
    support = sources("days customer", max_results=10, department="support")
    assert support
    assert set(support) <= {"refunds.md", "shipping-times.md", "lamp-warranty.md"}


def test_nothing_found_is_an_empty_list() -> None:
    assert sources("zebra crossing") == []


def test_common_words_find_nothing_by_themselves_unless_there_are_no_others() -> None:
    assert sources("what is the zebra") == []
    assert sources("the")


def test_a_snippet_shows_the_place_and_is_short(library: Callable[..., None]) -> None:
    words = [f"Donaudampfschifffahrtsgesellschaft{number}" for number in range(200)]
    library("long.md", " ".join([*words, "needle", *words]))
    library("first.md", "needle " + " ".join(words))
    library("last.md", " ".join(words) + "\nneedle")
    library("one.md", "x" * 10_000 + " needle")
    found = search_knowledge_base(query="needle")
    assert len(found) == 4
    for passage in found:
        assert "needle" in passage["snippet"]
        assert len(passage["snippet"]) <= 200
        assert passage["snippet"].isprintable()


@pytest.mark.parametrize(
    "query",
    [
        'hotel" OR "',
        "title:hotel",
        "hotel AND NOT meals",
        "NEAR(hotel meals, 2)",
        "hot*",
        "^hotel",
        "{title body}: hotel",
        "hotel) OR (1=1",
        "-hotel + meals",
        "'; DROP TABLE document; --",
        "hotel\x00meals",
        "\ud800 hotel",
        "a_b ___ hotel",
        " ".join(f"w{number}" for number in range(120)),
    ],
)
def test_what_fts_would_read_as_syntax_are_plain_words(query: str) -> None:
    for found in search_knowledge_base(query=query):
        assert re.fullmatch(r"[a-z-]+\.md", found["source"])


def test_an_operator_is_only_a_word(library: Callable[..., None]) -> None:
    library("and.md", "salt AND pepper")
    library("not.md", "knots")
    assert sources("salt NOT pepper") == ["and.md"]
    assert sources("body:pepper") == ["and.md"]
    assert sources("pep*") == []


@settings(max_examples=50, deadline=None)
@given(st.text(min_size=3, max_size=500))
@example('"')
@example("***")
def test_no_text_breaks_the_search(query: str) -> None:
    try:
        search_knowledge_base(query=query, max_results=10)
    except ValueError as error:
        assert "contains no word" in str(error)  # noqa: PT017 - the only refusal there is


def test_accents_and_endings_do_not_matter(library: Callable[..., None]) -> None:
    library("cafe.md", "The café has naïve waiters.")
    assert sources("cafe") == sources("waiter") == sources("NAIVE") == ["cafe.md"]


def test_a_changed_document_is_found_at_once(library: Callable[..., None]) -> None:
    library("a.md", "apples")
    assert sources("apples") == ["a.md"]
    library("a.md", "pears")
    assert sources("apples") == []
    assert sources("pears") == ["a.md"]


@pytest.mark.parametrize(
    "text",
    [
        "no front matter",
        "---\ntitle: x\n---\ntext",
        "---\ntitle: x\ndepartment: cellar\nlast_updated: 2026-01-01\n---\n",
        "---\n: [\n---\n",
        "---\n- a\n---\n",
    ],
)
def test_a_document_that_cannot_be_used_is_named(
    library: Callable[..., None], tmp_path: Path, text: str
) -> None:
    (tmp_path / "odd.md").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"odd\.md cannot be used") as caught:
        search_knowledge_base(query="anything")
    assert str(tmp_path) not in str(caught.value)


def test_an_empty_knowledge_base_is_not_an_empty_answer(library: Callable[..., None]) -> None:
    with pytest.raises(ValueError, match="has no documents"):
        search_knowledge_base(query="anything")


def test_the_documents_that_ship_are_valid_and_of_every_department() -> None:
    paths = sorted(knowledge.knowledge_path().glob("*.md"))
    assert len(paths) >= 12
    everything = sources("days week customer hotel shop vpn password", max_results=10)
    assert len(everything) == 10
    for department in ("engineering", "finance", "hr", "it", "support"):
        assert sources("days weeks hours shop", department=department)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"query": "ab"},
        {"query": "x" * 501},
        {"query": 12345},
        {"query": "leave", "max_results": 0},
        {"query": "leave", "max_results": 11},
        {"query": "leave", "max_results": 3.0},
        {"query": "leave", "max_results": "3"},
        {"query": "leave", "max_results": True},
        {"query": "leave", "department": "HR"},
        {"query": "leave", "department": "sales"},
        {"query": "leave", "department": None},
        {"query": "leave", "path": "/etc/passwd"},
    ],
    ids=lambda arguments: json.dumps(arguments)[:40],
)
def test_arguments_are_strict(arguments: dict[str, Any]) -> None:
    with pytest.raises(ArgumentsError):
        search_knowledge_base.parameters.validate(arguments)


@pytest.mark.parametrize(
    "arguments",
    [{"query": "abc"}, {"query": "x" * 500, "max_results": 10, "department": "it"}],
)
def test_the_bounds_are_valid(arguments: dict[str, Any]) -> None:
    search_knowledge_base.parameters.validate(arguments)


def test_searching_changes_nothing() -> None:
    assert search_knowledge_base.read_only
