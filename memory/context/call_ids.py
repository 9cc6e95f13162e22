"""The ids of tool calls as they are sent: nine letters and digits, as Mistral wants them.

A provider's own id may repeat or be longer than another provider takes. What is sent is
made from where the call is stored, so that it is the same in every view (I7).
"""

from __future__ import annotations

import re
import string
from hashlib import blake2b
from zlib import crc32

CALL_ID = re.compile(r"[A-Za-z0-9]{9}")
_DIGITS = string.digits + string.ascii_letters
_BODY, _CHECK = 7, 2


def make_call_id(stored: str, message_id: int, index: int) -> str:
    """The id to send for the call at `index` of a stored message.

    One that was made here stays as it is: a view that is fed in as a log comes out the
    same (I3).
    """
    if CALL_ID.fullmatch(stored) and stored == _add_check(stored[:_BODY]):
        return stored
    return spell_call_id(f"{message_id}/{index}")


def spell_call_id(text: str) -> str:
    """The id that stands for a text."""
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return _add_check(_spell(int.from_bytes(digest, "big"), _BODY))


def _add_check(body: str) -> str:
    return body + _spell(crc32(body.encode()), _CHECK)


def _spell(number: int, length: int) -> str:
    spelled = ""
    for _ in range(length):
        number, digit = divmod(number, len(_DIGITS))
        spelled += _DIGITS[digit]
    return spelled
