"""What a call costs: exact, and unknown where the price is."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from stepwell.messages import Usage
from stepwell.providers import anthropic, openai_chat, openai_responses
from stepwell.providers.http import HttpModel
from stepwell.providers.prices import priced
from stepwell.providers.registry import resolve
from stepwell.providers.wire import Wire
from stepwell.state.records import Used
from tests.narrowing import expect
from tests.providers.says import says

CACHED = {
    "prompt_tokens": 17111,
    "prompt_tokens_details": {"cached_tokens": 17102},
    "completion_tokens": 10,
}


def test_anthropic_counts_caches_beside_the_input() -> None:
    """Public case E06, at 3 / 3.75 / 0.30 / 15 USD for a million tokens."""
    said = {
        "input_tokens": 3,
        "cache_creation_input_tokens": 12304,
        "cache_read_input_tokens": 0,
        "output_tokens": 550,
    }
    usage = anthropic.usage(said, "claude-sonnet-4-5")
    assert usage == Usage(12307, 0, 550, Decimal("0.054399"))


def test_a_cache_of_an_hour_costs_more() -> None:
    said = {
        "input_tokens": 0,
        "cache_creation_input_tokens": 1000,
        "cache_creation": {"ephemeral_5m_input_tokens": 500, "ephemeral_1h_input_tokens": 500},
        "output_tokens": 0,
    }
    assert anthropic.usage(said, "claude-sonnet-4-5").cost == Decimal(
        "0.004875"
    )  # 500 at 3.75, 500 at 6


def test_openai_counts_caches_within_the_input() -> None:
    """Public case E06: 9 at the full price, 17102 at the cached one."""
    usage = openai_chat.usage(CACHED, "gpt-4o")
    cost = (9 * Decimal("2.5") + 17102 * Decimal("1.25") + 10 * Decimal(10)) / 1_000_000
    assert usage == Usage(17111, 17102, 10, cost)


def test_responses_count_like_chat() -> None:
    said = {
        "input_tokens": 17111,
        "input_tokens_details": {"cached_tokens": 17102},
        "output_tokens": 10,
    }
    assert openai_responses.usage(said, "gpt-4o") == openai_chat.usage(CACHED, "gpt-4o")


@pytest.mark.parametrize("model", ["test-model", "", "gpt"])
def test_an_unknown_price_is_unknown_not_zero(model: str) -> None:
    assert openai_chat.usage(CACHED, model).cost is None
    assert (
        Used().plus(usage=Usage(cost=Decimal(1))).plus(usage=openai_chat.usage(CACHED, model)).cost
        is None
    )


@pytest.mark.parametrize("said", [None, {}, "x", {"prompt_tokens": 5}, {"input_tokens": 5}])
def test_without_usage_the_cost_is_unknown(said: Any) -> None:
    assert openai_chat.usage(said, "gpt-4o").cost is None
    assert openai_responses.usage(said, "gpt-4o").cost is None
    assert anthropic.usage(said, "claude-sonnet-4-5").cost is None


def test_another_server_has_its_own_prices() -> None:
    usage = Usage(input_tokens=1000, output_tokens=10)
    deepseek = priced(usage, "openai", "deepseek-chat", address="https://api.deepseek.com/v1")
    assert deepseek.cost is not None
    assert priced(usage, "openai", "gpt-4o", address="http://127.0.0.1:8000/v1").cost is None


def test_counts_that_contradict_each_other_have_no_price() -> None:
    assert priced(Usage(input_tokens=1, cached_tokens=500), "openai", "gpt-4o").cost is None


@pytest.mark.parametrize("api", ["anthropic", "openai", "openai-chat"])
def test_a_price_is_known_before_a_call_if_and_only_if_it_is_known_after_it(
    api: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """On a server of one's own, `max_cost` refused the call and `show` priced it."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-x")
    name = {"anthropic": "claude-haiku-4-5"}.get(api, "gpt-4o")
    for address in (None, "http://127.0.0.1:9/v1"):
        for variable in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"):
            if address is None:
                monkeypatch.delenv(variable, raising=False)
            else:
                monkeypatch.setenv(variable, address)
        model = expect(HttpModel, resolve(f"{api}:{name}", tmp_path))
        reply = model.decode(says(api, "Hello."), Wire())
        cost = model.terms.cost
        is_known = cost(10, 5) is not None
        assert (reply.usage.cost is not None) is is_known
        assert is_known is (address is None)
