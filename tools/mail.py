"""Sending mail, simulated: each call writes one .eml file to an outbox."""

import os
import re
import tempfile
import unicodedata
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path
from urllib.parse import quote

from stepwell import DidNotHappen, Happened, ToolContext, tool

SENDER = "support@example.com"

_OUTBOX = Path(__file__).resolve().parents[1] / "data" / "outbox"
_MAX_ADDRESS = 254
_MAX_SUBJECT = 200

# The addresses that mail systems really accept, not all of RFC 5322: no names, comments, quotes,
# nor the question mark that an encoded word needs.
_ADDRESS = re.compile(
    r"[\w!#$%&'*+/=^`{|}~-]+(?:\.[\w!#$%&'*+/=^`{|}~-]+)*"
    r"@(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z](?:[a-z0-9-]{0,61}[a-z0-9])",
    re.ASCII | re.IGNORECASE,
)


def outbox_path() -> Path:
    """The folder for sent mail: STEPWELL_OUTBOX, else data/outbox beside the tools."""
    return Path(os.environ.get("STEPWELL_OUTBOX") or _OUTBOX)


def _find_mail(context: ToolContext) -> Happened | DidNotHappen:
    """Whether the mail of a lost call was sent: its file has the key's name."""
    name = _name(context)
    return Happened(name) if (outbox_path() / name).exists() else DidNotHappen()


def _name(context: ToolContext) -> str:
    # Whatever a key looks like, its quoted form is one plain file name.
    return quote(context.idempotency_key, safe="") + ".eml"


# Not idempotent=True although the file's name makes a repeat harmless: real mail could not promise
# it, but a real mail service can be asked whether it has a message with this key.
@tool(destructive=True, reconcile=_find_mail)
def send_email(to: str, subject: str, body: str, context: ToolContext) -> str:
    """Send a plain-text email to one person. Returns the name of the file in the outbox.

    Args:
        to: One email address, such as ada@example.com; no name, no list.
        subject: The subject, one line.
        body: The text of the message.
        context: Given by the engine.
    """
    name = _name(context)
    message = _message(to, subject, body, context.idempotency_key)
    outbox = outbox_path()
    if not (outbox / name).exists():
        outbox.mkdir(parents=True, exist_ok=True)
        _write(outbox / name, message.as_bytes())
    return name


def _message(to: str, subject: str, body: str, key: str) -> EmailMessage:
    if len(to) > _MAX_ADDRESS or not _ADDRESS.fullmatch(to):
        raise ValueError(
            f"{to[:_MAX_ADDRESS]!r} is not an email address."
            " Give exactly one plain address, such as ada@example.com."
        )
    message = EmailMessage(policy=SMTP)
    message["From"] = SENDER
    message["To"] = to
    message["Subject"] = _one_line(subject)
    # An encoded word (=?utf-8?q?=0A?=) is decoded by the header and could bring a line break back.
    if message["Subject"] != subject:
        raise ValueError(f"The subject {subject!r} contains mail encoding. Write it as plain text.")
    message["Date"] = datetime.now(UTC)
    message["Message-ID"] = f"<{quote(key, safe='')}@example.com>"
    message.set_content(body.encode("utf-8", "replace").decode("utf-8"))
    return message


def _one_line(subject: str) -> str:
    if not subject.strip() or len(subject) > _MAX_SUBJECT:
        raise ValueError(f"The subject must have 1 to {_MAX_SUBJECT} characters.")
    for character in subject:
        if unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"}:
            raise ValueError(f"The subject must be one line of plain text, without {character!r}.")
    return subject


def _write(path: Path, content: bytes) -> None:
    # A reader of the outbox, or a crash, never sees half a message.
    handle, temporary = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
