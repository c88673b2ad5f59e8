"""A catalogue of spare parts, in which a part may only refer to its replacement."""

from pathlib import Path
from typing import TypedDict

import yaml

from stepwell import tool

_PARTS = Path(__file__).resolve().parents[1] / "data" / "lookups" / "parts.yaml"


class Part(TypedDict, total=False):
    """One record: `shelf`, the location of the part, or `see`, the part that replaced it."""

    part: str
    shelf: str
    see: str


@tool(read_only=True)
def look_up_part(number: str) -> Part:
    """Look one spare part up. Its record has its shelf, or `see`: the part that replaced it.

    Args:
        number: The part's number, such as A-101.
    """
    records: dict[str, Part] = yaml.safe_load(_PARTS.read_text("utf-8"))
    key = number.strip().upper()
    if key not in records:
        raise ValueError(f"Part {number[:40]!r} does not exist. Numbers look like A-101.")
    return records[key] | Part(part=key)
