"""The firm's knowledge base: a folder of Markdown files, searched with SQLite's FTS5."""

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Annotated, Literal, TypedDict, get_args

import yaml
from pydantic import BaseModel, Field, ValidationError

from stepwell import tool

MAX_SNIPPET = 200
_MARK = "\1"

Department = Literal["engineering", "finance", "hr", "it", "support"]

_KNOWLEDGE = Path(__file__).resolve().parents[1] / "data" / "knowledge"
_PARTS = re.compile(r"\A---\n(.*?)\n---\n(.*)\Z", re.DOTALL)
_WORD = re.compile(r"\w+")

# Words that occur in every document do not help to find one.
_COMMON = frozenset(_WORD.findall("""
a about all an and any are as at be by can do does for from get has have how i if in is it many may
me much my need of on or our should that the there this to us was we what when where which who why
will with you your
"""))  # fmt: skip

_TABLE = """
CREATE VIRTUAL TABLE document USING fts5(
    title, body, department UNINDEXED, last_updated UNINDEXED, source UNINDEXED,
    tokenize = 'porter unicode61 remove_diacritics 2')
"""
# A word of the title counts four times. 30 words are about MAX_SNIPPET characters.
_SEARCH = """
SELECT title, snippet(document, 1, char(1), '', '…', 30) AS snippet,
       -bm25(document, 4.0, 1.0) AS score, source, last_updated
  FROM document
 WHERE document MATCH :words AND :department IN ('all', department)
 ORDER BY score DESC, source
 LIMIT :limit
"""


class Passage(TypedDict):
    """A matching document, and its best matching part."""

    title: str
    snippet: str
    relevance_score: float
    source: str
    last_updated: str


class Head(BaseModel):
    """The metadata between the first two lines of dashes of a document."""

    title: str = Field(min_length=1)
    department: Department
    last_updated: date


def knowledge_path() -> Path:
    """The folder of the documents: STEPWELL_KNOWLEDGE, else data/knowledge beside the tools."""
    return Path(os.environ.get("STEPWELL_KNOWLEDGE") or _KNOWLEDGE)


@tool(read_only=True)
def search_knowledge_base(
    query: Annotated[str, Field(min_length=3, max_length=500)],
    max_results: Annotated[int, Field(ge=1, le=10)] = 5,
    department: Literal[Department, "all"] = "all",
) -> list[Passage]:
    """Search the firm's own documents: its rules, procedures and promises to customers.

    An empty list means that no document has any of the words: say so, do not guess.

    Args:
        query: The words to look for; a few good ones find more than a sentence.
        max_results: How many documents at most, the best first.
        department: Only documents of this department.
    """
    values = {"words": _any_of(query), "department": department, "limit": max_results}
    with closing(sqlite3.connect(":memory:")) as database:
        database.row_factory = sqlite3.Row
        database.execute(_TABLE)
        # A dozen files are indexed in milliseconds: so no index is kept that could become stale.
        database.executemany("INSERT INTO document VALUES (?, ?, ?, ?, ?)", _documents())
        return [_passage(row) for row in database.execute(_SEARCH, values)]


def _any_of(query: str) -> str:
    """The query's words as FTS5 reads them. Quoted, a word is never an operator or a column."""
    words = list(dict.fromkeys(_WORD.findall(query.casefold())))
    telling = [word for word in words if word not in _COMMON] or words
    if not telling:
        raise ValueError(f"The query {query[:100]!r} contains no word to search for.")
    return " OR ".join(f'"{word}"' for word in telling)


def _passage(row: sqlite3.Row) -> Passage:
    return {
        "title": row["title"],
        "snippet": _around(" ".join(row["snippet"].split())),
        # From 0 to 1, whatever the size of the collection: BM25 itself has no upper end.
        "relevance_score": round(row["score"] / (1 + row["score"]), 3),
        "source": row["source"],
        "last_updated": row["last_updated"],
    }


def _around(marked: str) -> str:
    """The text, cut so that the first word found, which has a mark before it, stays in it."""
    place = max(0, marked.find(_MARK))
    text = marked.replace(_MARK, "")
    if len(text) <= MAX_SNIPPET:
        return text
    size = MAX_SNIPPET - 2
    begin = max(0, min(place - size // 2, len(text) - size))
    ends = begin + size
    return f"{'…' if begin else ''}{text[begin:ends]}{'…' if ends < len(text) else ''}"


def _documents() -> Iterator[tuple[str, str, str, str, str]]:
    paths = sorted(knowledge_path().glob("*.md"))
    if not paths:
        raise ValueError("The knowledge base has no documents, so it cannot be searched.")
    for path in paths:
        try:
            parts = _PARTS.match(path.read_text("utf-8"))
            head, body = parts.groups() if parts else ("", "")
            known = Head.model_validate(yaml.safe_load(head))
        except (OSError, UnicodeDecodeError, yaml.YAMLError, ValidationError) as error:
            raise ValueError(
                f"The document {path.name} cannot be used: it must begin with a title, a department"
                f" ({', '.join(get_args(Department))}) and last_updated, between lines of ---."
            ) from error
        yield known.title, body, known.department, known.last_updated.isoformat(), path.name
