"""A model's window and price, from the price list inside genai-prices: no network."""

from dataclasses import replace
from decimal import Decimal
from functools import cache
from typing import Any

from stepwell import clock
from stepwell.messages import Terms, Usage


def priced(
    usage: Usage,
    provider: str,
    model: str,
    *,
    written: int = 0,
    hour: int = 0,
    address: str | None = None,
) -> Usage:
    """`usage` with its cost in USD, or as it is where the price of `model` is not known.

    Args:
        usage: tokens; its input includes those read from and written to a cache.
        provider: as genai-prices names it; ignored if there is an `address`.
        model: as the provider names it.
        written: input tokens that were written to a cache.
        hour: those of them that are kept for an hour, which costs more.
        address: the base URL of a server other than the provider's own.
    """
    from genai_prices import Usage as Counted
    from genai_prices import calc_price

    counted = Counted(
        input_tokens=usage.input_tokens,
        cache_read_tokens=usage.cached_tokens,
        cache_write_tokens=written,
        output_tokens=usage.output_tokens,
        **({"cache_write_1h_tokens": hour} if hour else {}),
    )
    where: Any = {"provider_api_url": address} if address else {"provider_id": provider}
    try:
        found = calc_price(counted, model, genai_request_timestamp=clock.now(), **where)
    except (LookupError, ValueError):
        return usage
    return replace(usage, cost=found.total_price)


@cache
def terms(provider: str, model: str, address: str | None = None) -> Terms:
    """The window and the price of `model`; None if unknown.

    Args:
        provider: as genai-prices names it; ignored if there is an `address`.
        model: as the provider names it.
        address: the base URL of a server other than the provider's own.
    """
    from genai_prices.data_snapshot import get_snapshot

    try:
        known = get_snapshot().find_provider_model(
            model, None, None if address else provider, address
        )[1]
    except LookupError:
        return Terms()

    def cost(read: int, written: int) -> Decimal | None:
        counted = Usage(input_tokens=read, output_tokens=written)
        return priced(counted, provider, model, address=address).cost

    return Terms(known.context_window, cost)
