"""register, login and logout."""

from __future__ import annotations

import hashlib
import hmac
import unicodedata

from sandbox.game import views
from sandbox.game.config import GameError, Json, describe_release
from sandbox.game.sessions import Session
from sandbox.game.state import State
from sandbox.game.tools.combat import new_ship
from sandbox.game.world.catalogue import STARTER
from sandbox.game.world.galaxy import BY_EMPIRE, Capital
from sandbox.game.world.models import Player

_EMPIRES = (
    "Invalid empire. Choose one of:\n"
    "  - solarian: Masters of energy and trade. Mining and trading bonuses.\n"
    "  - voidborn: Children of the dark. Stealth and shield bonuses.\n"
    "  - crimson: Warriors of the red nebula. Combat damage bonuses.\n"
    "  - nebula: Explorers and scientists. Exploration speed bonuses.\n"
    "  - outerrim: Frontier survivors. Crafting and cargo bonuses.\n"
    'Example: {"type": "register", "payload": {"username": "myname", '
    '"empire": "solarian", "registration_code": "your_code"}}'
)


def register(state: State, arguments: Json) -> Json:
    """Make an account and log it in; a registration code is not looked at."""
    username = arguments.get("username", "").strip()
    _check_username(state, username)
    capital = BY_EMPIRE.get(arguments.get("empire", ""))
    if capital is None:
        raise GameError("invalid_empire", _EMPIRES)
    if len(state.players) >= state.config.max_players:
        raise GameError("server_full", "This server takes no more players.")
    password = state.sources.token(32)
    player = _make_player(state, username, capital, password)
    state.add_player(player)
    session = _open(state, player)
    return {
        "message": f"Welcome to SpaceMolt, {username}! Keep your password.",
        "player_id": player.id,
        "password": password,
        "session_id": session.id,
        **_situation(state, player),
    }


def _check_username(state: State, username: str) -> None:
    if not 3 <= len(username) <= 24:
        raise GameError("invalid_username", "Username must be 3-24 characters")
    if not all(map(_is_allowed, username)):
        raise GameError(
            "invalid_username",
            "Username may contain letters, digits, spaces, _ - ' . ! and emoji only",
        )
    if username.casefold() in state.usernames:
        raise GameError("username_taken", "Username already taken")


def _is_allowed(sign: str) -> bool:
    if sign.isascii():
        return sign.isalnum() or sign in " _-'.!"
    # Letters and their marks, decimal digits, and emoji with what joins them.
    kind = unicodedata.category(sign)
    return kind[0] in "LM" or kind in ("Nd", "So", "Sk") or sign == "\u200d"


def _make_player(
    state: State, username: str, capital: Capital, password: str
) -> Player:
    player_id = state.sources.token(16)
    return Player(
        id=player_id,
        username=username,
        empire=capital.empire,
        password_hash=_hash(password),
        created_at=state.now,
        home_base=capital.base[0],
        system_id=capital.system_id,
        poi_id=capital.station[0],
        docked_at=capital.base[0],
        ship=new_ship(state, player_id, STARTER),
        visited={capital.system_id: state.plain_now},
    )


def _hash(password: str) -> str:
    # A 256-bit random password needs no slow hash.
    return hashlib.sha256(password.encode()).hexdigest()


def login(state: State, arguments: Json) -> Json:
    player = state.find_player(arguments.get("username", "").strip())
    given = _hash(arguments.get("password", ""))
    if player is None or not hmac.compare_digest(given, player.password_hash):
        raise GameError(
            "auth_failed",
            "Invalid username or password. Passwords are random hex strings.",
        )
    session = _open(state, player)
    modern = state.config.is_modern  # since v0.63.1 only the newest entry
    return {
        "message": f"Welcome back, {player.username}!",
        "session_id": session.id,
        "username": player.username,
        **_situation(state, player),
        "captains_log": views.view_log(player.log[: 1 if modern else None]),
        "pending_trades": [],
        "unread_chat": {"system": 0, "local": 0, "faction": 0, "private": 0},
        "release_info": describe_release(state.config.era),
    }


def _open(state: State, player: Player) -> Session:
    player.last_login_at = player.last_active_at = state.now
    return state.sessions.open(player.id)


def _situation(state: State, player: Player) -> Json:
    system = state.world.systems[player.system_id]
    return {
        "player": views.view_full_player(player, state.faction_of(player)),
        "ship": views.view_ship(player.ship),
        "system": views.view_system(system, player.revealed),
        "poi": views.view_poi(state.world.pois[player.poi_id]),
    }


def logout(state: State, player: Player, session: Session) -> Json:
    """End a session; the captain and the ship stay where they are."""
    player.last_active_at = state.now
    state.sessions.close(session.id)
    return {"message": f"Goodbye, {player.username}. Your ship waits for you."}
