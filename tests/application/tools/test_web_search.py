from typing import Any

import pytest

from stepwell.errors import ArgumentsError
from tests.application.tools.local_service import NOBODY, Service
from tools.web_search import SearchUnavailable, web_search

KEY = "BSA-not-a-real-key"
PATH = "/res/v1/web/search"


def page(number: int, **more: Any) -> dict[str, str]:
    return {
        "title": f"Page {number}",
        "url": f"https://example.com/{number}",
        "description": f"About {number}.",
        "age": "2 days ago",
        **more,
    }


@pytest.fixture
def brave(service: Service, monkeypatch: pytest.MonkeyPatch) -> Service:
    """A stand-in for the search service, with a key that it accepts."""
    monkeypatch.setenv("STEPWELL_SEARCH_URL", service.url)
    monkeypatch.setenv("BRAVE_API_KEY", KEY)
    pages = [page(number) for number in range(1, 9)]
    service.answers[PATH] = (200, {"type": "search", "web": {"results": pages}})
    return service


def test_pages_are_found_and_the_service_is_asked_as_it_wants(brave: Service) -> None:
    found = web_search(query="city tax & Milan", num_results=2)
    assert found == [
        {"title": "Page 1", "url": "https://example.com/1", "description": "About 1."},
        {"title": "Page 2", "url": "https://example.com/2", "description": "About 2."},
    ]
    [(path, asked, headers)] = brave.asked
    assert (path, asked["q"], asked["count"]) == (PATH, "city tax & Milan", "2")
    assert headers["x-subscription-token"] == KEY
    assert KEY not in asked.values()


def test_three_is_the_default(brave: Service) -> None:
    assert len(web_search(query="x")) == 3


@pytest.mark.parametrize("key", [None, "", "  "])
def test_without_a_key_the_model_is_told_so_and_nothing_is_asked(
    brave: Service, monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    if key is None:
        monkeypatch.delenv("BRAVE_API_KEY")
    else:
        monkeypatch.setenv("BRAVE_API_KEY", key)
    with pytest.raises(SearchUnavailable, match="BRAVE_API_KEY is not set") as caught:
        web_search(query="x")
    assert "Do not call web_search again" in caught.value.hint
    assert brave.asked == []


@pytest.mark.parametrize("key", ["two words here", "line\nbreak-key", "caf\xe9-key-key", "k"])
def test_what_is_no_key_is_not_sent_and_not_shown(
    brave: Service, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("BRAVE_API_KEY", key)
    with pytest.raises(SearchUnavailable, match="is not a valid key") as caught:
        web_search(query="x")
    assert key not in str(caught.value) or key == "k"
    assert brave.asked == []


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (401, {}, "does not accept the key in BRAVE_API_KEY"),
        (403, {}, "does not accept the key in BRAVE_API_KEY"),
        (422, {"error": {"detail": KEY}}, "did not accept this query"),
        (429, {}, "status 429"),
        (500, {}, "status 500"),
        (302, {}, "a redirect"),
        (200, b"<html>", "not JSON"),
        (200, [], "another form"),
        (200, {"web": []}, "another form"),
        (200, {"web": {"results": {}}}, "another form"),
    ],
)
def test_a_failure_says_what_to_do_and_never_the_key(
    brave: Service, status: int, body: Any, says: str
) -> None:
    brave.answers[PATH] = (status, body)
    with pytest.raises(SearchUnavailable, match=says) as caught:
        web_search(query="x")
    assert caught.value.hint
    chain = [caught.value, caught.value.__cause__]
    assert KEY not in "".join(map(repr, chain))


def test_a_service_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRAVE_API_KEY", KEY)
    monkeypatch.setenv("STEPWELL_SEARCH_URL", NOBODY)
    with pytest.raises(SearchUnavailable, match="ConnectError"):
        web_search(query="x")


@pytest.mark.parametrize("body", [{}, {"web": {}}, {"web": {"results": []}}])
def test_nothing_found_is_an_empty_list(brave: Service, body: dict[str, Any]) -> None:
    brave.answers[PATH] = (200, body)
    assert web_search(query="x") == []


def test_an_odd_result_does_not_lose_the_others(brave: Service) -> None:
    odd = [None, "x", {}, page(1, url="javascript:alert(1)"), page(2, url="file:///etc/passwd")]
    long = page(3, title="t" * 999, description="d" * 9999)
    brave.answers[PATH] = (200, {"web": {"results": [*odd, long, page(4)]}})
    found = web_search(query="x", num_results=5)
    assert [one["url"] for one in found] == ["https://example.com/3", "https://example.com/4"]
    assert (len(found[0]["title"]), len(found[0]["description"])) == (200, 500)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"query": ""},
        {"query": "x" * 401},
        {"query": "x", "num_results": 0},
        {"query": "x", "num_results": 6},
        {"query": "x", "num_results": 2.0},
        {"query": "x", "num_results": "2"},
        {"query": "x", "url": "http://127.0.0.1"},
    ],
)
def test_arguments_are_strict(arguments: dict[str, Any]) -> None:
    with pytest.raises(ArgumentsError):
        web_search.parameters.validate(arguments)


def test_searching_changes_nothing() -> None:
    assert web_search.read_only
