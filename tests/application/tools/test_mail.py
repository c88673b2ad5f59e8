import email
import email.policy
from collections.abc import Callable
from typing import Any

import pytest

from stepwell import DidNotHappen, Happened
from stepwell.errors import ArgumentsError
from stepwell.tools.context import ToolContext
from tools import mail
from tools.mail import send_email

ENCODED_LINE_BREAK = "=?utf-8?q?hi=0ABcc:_evil@example.com?="


def outbox() -> list[str]:
    folder = mail.outbox_path()
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def read(name: str) -> Any:
    content = (mail.outbox_path() / name).read_bytes()
    return email.message_from_bytes(content, policy=email.policy.default)


def send(
    context: ToolContext,
    *,
    to: str = "ada@example.com",
    subject: str = "Your refund",
    body: str = "It is on its way.",
) -> str:
    said: str = send_email(to=to, subject=subject, body=body, context=context)
    return said


def test_a_message_lies_in_the_outbox_named_by_its_key(
    make_context: Callable[..., ToolContext],
) -> None:
    assert send(make_context("call-a")) == "call-a.eml"
    message = read("call-a.eml")
    assert message["To"] == "ada@example.com"
    assert message["From"] == mail.SENDER
    assert message["Subject"] == "Your refund"
    assert message["Date"].datetime.tzinfo is not None
    assert message.get_content().strip() == "It is on its way."
    assert outbox() == ["call-a.eml"]


def test_the_same_key_sends_once(make_context: Callable[..., ToolContext]) -> None:
    send(make_context("call-a"), body="first")
    assert send(make_context("call-a"), body="second") == "call-a.eml"
    assert read("call-a.eml").get_content().strip() == "first"
    assert outbox() == ["call-a.eml"]


@pytest.mark.parametrize("key", ["../../evil", "/etc/passwd", "..", "a\x00b", "a\nb"])
def test_no_key_leaves_the_outbox(make_context: Callable[..., ToolContext], key: str) -> None:
    name = send(make_context(key))
    assert "/" not in name
    assert outbox() == [name]


def test_text_survives_in_any_language(make_context: Callable[..., ToolContext]) -> None:
    subject, body = "Größe ✓ " * 20 + "end", "Zeile ü\n.\nFrom here\n\n漢字"
    message = read(send(make_context(), subject=subject, body=body))
    assert message["Subject"] == subject
    assert message.get_content().splitlines() == body.splitlines()
    assert not message.defects


def test_what_cannot_be_encoded_is_replaced(make_context: Callable[..., ToolContext]) -> None:
    assert read(send(make_context(), body="a\udcb2b")).get_content().strip() == "a?b"


@pytest.mark.parametrize(
    "subject",
    ["Hi\nBcc: evil@example.com", "Hi\rX", "a\x00b", "a\u2028b", "\ud800", ENCODED_LINE_BREAK],
)
def test_no_header_can_be_smuggled_in_by_the_subject(
    make_context: Callable[..., ToolContext], subject: str
) -> None:
    with pytest.raises(ValueError, match=r"plain text"):
        send(make_context(), subject=subject)
    assert outbox() == []


@pytest.mark.parametrize("subject", ["", "   ", "x" * 201])
def test_a_subject_has_a_sensible_length(
    make_context: Callable[..., ToolContext], subject: str
) -> None:
    with pytest.raises(ValueError, match="1 to 200 characters"):
        send(make_context(), subject=subject)


@pytest.mark.parametrize("address", ["a@b.co", "o'brien+lamp@ex-ample.co.uk", "A.B_c@EXAMPLE.com"])
def test_plain_addresses_are_accepted(
    make_context: Callable[..., ToolContext], address: str
) -> None:
    assert read(send(make_context(), to=address))["To"] == address


@pytest.mark.parametrize(
    "address",
    [
        "",
        "ada",
        "ada@",
        "ada@localhost",
        "ada@-x.com",
        "a..b@example.com",
        "a b@example.com",
        "Ada <ada@example.com>",
        "ada@example.com, bob@example.com",
        "ada@example.com\n",
        "ada@example.com\nBcc: evil@example.com",
        "=?utf-8?q?a=0A?=@example.com",
        "ünï@example.com",
        "x" * 300 + "@example.com",
        "a@" + "b." * 126 + "c",
    ],
)
def test_anything_but_one_plain_address_is_refused(
    make_context: Callable[..., ToolContext], address: str
) -> None:
    with pytest.raises(ValueError, match="is not an email address"):
        send(make_context(), to=address)
    assert outbox() == []


def test_a_failed_write_leaves_nothing_behind(
    make_context: Callable[..., ToolContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tools.mail.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        send(make_context())
    assert outbox() == []


def test_every_part_must_be_given() -> None:
    with pytest.raises(ArgumentsError):
        send_email.parameters.validate({"to": "ada@example.com", "subject": "Hi"})


def test_a_repeat_is_not_declared_harmless() -> None:
    assert not send_email.read_only
    assert not send_email.idempotent


def test_a_lost_mail_finds_out_itself(make_context: Callable[..., ToolContext]) -> None:
    context = make_context()
    assert send_email.reconcile is not None
    assert send_email.reconcile(context) == DidNotHappen()
    name = send_email(to="ada@example.com", subject="Hello", body="Hi.", context=context)
    assert send_email.reconcile(context) == Happened(name)
