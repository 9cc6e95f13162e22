"""Chat between captains, and the list of their trade offers."""

from __future__ import annotations

from typing import Any

from sandbox.game.errors import GameError
from sandbox.game.models import Player
from sandbox.game.notifications import Event
from sandbox.game.queries.call import Call, Json
from sandbox.game.stamps import rfc3339
from sandbox.game.state import State

CHANNELS = ("system", "local", "private")
MOST_KEPT = 100


def chat(call: Call) -> Json:
    """Say something to everybody, to the system or to one captain."""
    channel = call.arguments["channel"]
    text = call.arguments["content"].strip()
    if channel not in CHANNELS:
        raise GameError(
            "invalid_channel", f"Unknown channel. Use one of: {', '.join(CHANNELS)}."
        )
    if not text:
        raise GameError("empty_message", "Message cannot be empty.")
    message = _message(call, channel, text)
    hearers = _hearers(call, channel)
    for hearer in hearers:
        hearer_event = Event(message, "chat_message", "chat")
        call.state.tell_event(hearer, hearer_event)
    call.state.chat.append(message)
    del call.state.chat[:-MOST_KEPT]
    return {"message": "Message sent", "channel": channel, "id": message["id"]}


def _message(call: Call, channel: str, text: str) -> dict[str, Any]:
    message: dict[str, Any] = {
        "id": call.state.sources.token(16),
        "channel": channel,
        "sender_id": call.player.id,
        "sender": call.player.username,
        "content": text,
        "timestamp": rfc3339(call.state.sources.now_ns()),
    }
    if channel == "local":
        message["system_id"] = call.player.system_id
    if channel == "private":
        message["target_id"] = call.arguments.get("target_id", "")
    return message


def _hearers(call: Call, channel: str) -> list[Player]:
    state, sender = call.state, call.player
    online = [state.players[name] for name in state.sessions.online()]
    others = [one for one in online if one.id != sender.id]
    if channel == "local":
        return [one for one in others if one.system_id == sender.system_id]
    if channel == "private":
        target = state.players.get(call.arguments.get("target_id", ""))
        if target is None:
            raise GameError("invalid_target", "No such captain.")
        return [target]
    return others


def get_chat_history(call: Call) -> Json:
    channel = call.arguments["channel"]
    heard = [
        one
        for one in call.state.chat
        if one["channel"] == channel and _may_read(call.player, one)
    ]
    return {"channel": channel, "messages": heard[-50:], "count": len(heard[-50:])}


def _may_read(player: Player, message: dict[str, Any]) -> bool:
    if message["channel"] == "local":
        return bool(message["system_id"] == player.system_id)
    if message["channel"] == "private":
        return player.id in (message["sender_id"], message["target_id"])
    return True


def get_trades(call: Call) -> Json:
    mine, state = call.player.id, call.state
    return {
        "incoming": _offers(state, "target_id", mine),
        "outgoing": _offers(state, "offerer_id", mine),
    }


def _offers(state: State, side: str, player_id: str) -> list[Json]:
    return [
        offer.view()
        for offer in state.trades.values()
        if getattr(offer, side) == player_id
    ]
