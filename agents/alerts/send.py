"""One request to a target: how an alert is written for it, and what it answers.

No redirect is followed, an answer is read up to a limit and a deadline, and addresses of
the own network are allowed: an ntfy in the house is a good target. So only admins name
targets.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import httpx2
from django.conf import settings

# Seconds for one attempt, altogether, and bytes of an answer that are read.
LONGEST = 10.0
LARGEST = 16_384
# Characters of an answer that are kept and shown.
SHOWN = 300
# What stands for a part of the address or the secret, and the shortest part of a path
# that is looked for by itself.
MASK, SHORTEST_PART = "…", 4
# Answers that say: not now. Other ones of 4xx refuse this body, or everybody.
BUSY = frozenset({408, 425, 429})
SIGNATURE = "X-Zoea-Signature"
RAISED = "alert.raised"
# The kind of a message that is no event of the log.
DIGEST = "digest"
# What ntfy takes as a message, in bytes, and Slack, in characters; both with some room.
LONGEST_NTFY, LONGEST_SLACK = 4_000, 3_500
_load_certificates = cache(httpx2.create_ssl_context)


@dataclass(frozen=True, slots=True)
class Message:
    """An event for a target; ``body`` is its JSON, ``key`` the same at every attempt."""

    kind: str
    url: str
    secret: str
    body: str
    key: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: a status with its text, or why there was none."""

    status: int | None = None
    text: str = ""
    error: str = ""

    @property
    def ok(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    @property
    def refused(self) -> bool:
        """Whether the target is there and does not take this."""
        return (
            self.status is not None
            and 300 <= self.status < 500
            and (self.status not in BUSY)
        )

    def describe(self) -> str:
        """It in a sentence, with the remedy where one is known."""
        if self.status is None:
            return self.error
        said = f", and says: {self.text}" if self.text else ""
        remedy = REMEDIES.get(self.status, "")
        if 300 <= self.status < 400:
            remedy = "Redirects are not followed: give the address it leads to."
        return f"It answers {self.status}{said}. {remedy}".strip()


REMEDIES = {
    401: "Check the secret.",
    403: "Check the secret.",
    404: "Check the address.",
    410: "Check the address.",
    429: "It limits its callers: it is asked again later.",
}


def sign_body(body: bytes, secret: str) -> str:
    """The value of `SIGNATURE`: ``sha256=`` and the HMAC of the body as hex digits."""
    return f"sha256={hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}"


async def send_message(message: Message) -> Answer:
    """Send it once; never raises for what a target does."""
    url, body, headers = build_request(message)
    try:
        async with asyncio.timeout(LONGEST), _open_client() as client:
            request = client.build_request("POST", url, content=body, headers=headers)
            response = await client.send(request, stream=True)
            try:
                text = mask_secrets(await _read_text(response), message)
            finally:
                await response.aclose()
    except TimeoutError:
        return Answer(error=f"It did not answer within {LONGEST:g} s.")
    except (
        httpx2.HTTPError,
        httpx2.InvalidURL,
        httpx2.StreamError,
        OSError,
        ValueError,
    ) as error:
        why = str(error).strip().rstrip(".") or type(error).__name__
        return Answer(
            error=cut_text(
                f"It cannot be reached: {mask_secrets(why, message)}.", SHOWN
            )
        )
    return Answer(response.status_code, cut_text(text, SHOWN))


def mask_secrets(text: str, message: Message) -> str:
    """The text without path, query and secret of a target: many servers repeat them."""
    parts = {one for one in _list_secrets(message) if one}
    parts |= {json.dumps(one)[1:-1] for one in parts} | {
        one.replace(sign, escaped)
        for one in parts
        for sign, escaped in (("&", "&amp;"), ("/", "\\/"), ("/", "%2F"))
    }
    # The longest first: a part of it would leave the rest.
    found = "|".join(map(re.escape, sorted(parts, key=len, reverse=True)))
    return re.sub(found, MASK, text, flags=re.IGNORECASE) if found else text


def _list_secrets(message: Message) -> Iterator[str]:
    yield message.secret
    address = urlsplit(message.url)
    for path in (address.path, unquote(address.path)):
        bare = path.rstrip("/")
        yield bare
        yield from (one for one in bare.split("/") if len(one) >= SHORTEST_PART)
    yield address.query
    values = [value for _, value in parse_qsl(address.query)]
    yield from (one for one in values if len(one) >= SHORTEST_PART)


def _open_client() -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        verify=_load_certificates(),
        timeout=httpx2.Timeout(LONGEST),
        follow_redirects=False,
        headers={"Accept-Encoding": "identity", "User-Agent": "Zoea"},
    )


async def _read_text(response: httpx2.Response) -> str:
    """The beginning of an answer as one line, as far as it is read."""
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) >= LARGEST:
            break
    words = " ".join(bytes(body[:LARGEST]).decode(errors="replace").split())
    return "".join(c for c in words if c.isprintable())


def build_request(message: Message) -> tuple[str, bytes, dict[str, str]]:
    """The address, the body and the headers of an alert for its target."""
    url, body, headers = WRITERS[message.kind](message)
    return (
        url,
        body,
        {
            "Content-Type": "application/json",
            "Idempotency-Key": message.key,
            **headers,
        },
    )


Request = tuple[str, bytes, dict[str, str]]


def _write_webhook(message: Message) -> Request:
    body = message.body.encode()
    return message.url, body, {SIGNATURE: sign_body(body, message.secret)}


def _write_ntfy(message: Message) -> Request:
    """ntfy's JSON form, posted beside the topic: headers would have no room for names."""
    item = json.loads(message.body)
    root, _, topic = message.url.rstrip("/").rpartition("/")
    told: dict[str, Any] = {
        "topic": topic,
        "title": _make_title(item),
        "message": cut_text(_make_text(item), LONGEST_NTFY, in_bytes=True),
        "priority": 4 if item["kind"] == RAISED else 3,
        "tags": [SIGNS.get(item["kind"], "white_check_mark")],
    }
    if link := make_link(item["data"]):
        told["click"] = link
    key = {"Authorization": f"Bearer {message.secret}"} if message.secret else {}
    return f"{root}/", json.dumps(told).encode(), key


def _write_slack(message: Message) -> Request:
    item = json.loads(message.body)
    sign = SIGNS.get(item["kind"], "white_check_mark")
    # Cut before it is escaped, else half an escape could stand at its end.
    text = cut_text(_make_text(item), LONGEST_SLACK)
    after = "\n" if item["kind"] == DIGEST else " "
    words = f":{sign}: *{_escape(_make_title(item))}*{after}{_escape(text)}"
    if link := make_link(item["data"]):
        words += f" <{link}|Open>"
    return message.url, json.dumps({"text": words}).encode(), {}


# The sign of a message, as both call it.
SIGNS = {RAISED: "warning", DIGEST: "bar_chart"}


def cut_text(text: str, most: int, *, in_bytes: bool = False) -> str:
    """A text of so many characters or bytes of UTF-8 at most, its end an ellipsis."""
    if not in_bytes:
        return text if len(text) <= most else f"{text[: most - 1]}…"
    data = text.encode()
    if len(data) <= most:
        return text
    return data[: most - len("…".encode())].decode(errors="ignore") + "…"


def _make_text(item: Mapping[str, Any]) -> str:
    told = (item["data"].get(name) for name in ("text", "also"))
    return " ".join(str(one) for one in told if one)


WRITERS = {"webhook": _write_webhook, "ntfy": _write_ntfy, "slack": _write_slack}


def _escape(text: str) -> str:
    """What Slack asks for; without it a text could hold links and mentions."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _make_title(item: Mapping[str, Any]) -> str:
    if item["kind"] == DIGEST:
        return str(item["data"].get("title"))
    rule = str(item["data"].get("rule") or "alert").replace("_", " ")
    over = "" if item["kind"] == RAISED else " is over"
    who = item["data"].get("mysis")
    return f"{who}: {rule}{over}" if who else f"Zoea: {rule}{over}"


def make_link(data: Mapping[str, Any]) -> str:
    """A link for other programs; "" where no address of these pages is set."""
    origin = next((one for one in settings.ZOEA_ORIGINS if "*" not in one), "")
    path = str(data.get("link") or "")
    return f"{origin.rstrip('/')}{path}" if origin and path else ""
