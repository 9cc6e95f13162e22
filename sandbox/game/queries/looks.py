"""set_status, set_colors and set_anonymous: they write, and take no turn."""

from __future__ import annotations

import re

from sandbox.game.errors import GameError
from sandbox.game.queries.call import Call, Json

LONGEST_STATUS = 100
_COLOR = re.compile(r"#[0-9A-Fa-f]{6}")


def set_status(call: Call) -> Json:
    text = call.arguments.get("status_message", "").strip()
    if len(text) > LONGEST_STATUS:
        raise GameError("invalid_status", f"At most {LONGEST_STATUS} characters.")
    call.player.looks.status_message = text
    return {"message": "Status updated", "status_message": text}


def set_colors(call: Call) -> Json:
    names = ("primary_color", "secondary_color")
    given = {name: call.arguments[name] for name in names}
    if not all(_COLOR.fullmatch(value) for value in given.values()):
        raise GameError("invalid_color", "Colors are given as #RRGGBB.")
    call.player.looks.primary_color = given["primary_color"]
    call.player.looks.secondary_color = given["secondary_color"]
    return {"message": "Colors updated", **given}


def set_anonymous(call: Call) -> Json:
    call.player.looks.anonymous = call.arguments["anonymous"]
    return {"message": "Updated", "anonymous": call.player.looks.anonymous}
