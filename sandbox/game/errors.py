"""What the game answers when it refuses: codes and texts as the real server sends."""

from __future__ import annotations


class GameError(Exception):
    """A refused call: a short code and a sentence for the player."""

    def __init__(
        self, code: str, message: str, wait_seconds: float | None = None
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.wait_seconds = wait_seconds

    @property
    def text(self) -> str:
        """The text of an MCP error result."""
        return f"Error: {self.code}: {self.message}"


def session_required() -> GameError:
    return GameError(
        "session_required",
        "You must provide a session_id. "
        "Get one by calling login() or register() first.",
    )


def session_invalid() -> GameError:
    return GameError(
        "session_invalid",
        "Session not found or expired. Call login() again to get a new session_id.",
    )


def auth_failed() -> GameError:
    return GameError(
        "auth_failed",
        "Invalid username or password. Passwords are random hex strings.",
    )


def unknown_command(name: str) -> GameError:
    return GameError(
        "unknown_command",
        f"Unknown command: {name}. Use the 'help' command to see available commands.",
    )


def not_docked_here() -> GameError:
    """For everything that needs a station's services."""
    return GameError(
        "not_docked",
        "You must be docked at a base to perform this action. Use 'dock' at a POI "
        "with a base, or use 'get_poi' to check if your current location has a base.",
    )


def must_undock() -> GameError:
    return GameError("docked", "You are docked. Use 'undock' first.")


def unknown_item(given: str) -> GameError:
    return GameError(
        "invalid_item",
        f"Unknown item '{given}'. "
        "Use exact item ID (e.g. 'iron_ore') or full name (e.g. 'Iron Ore').",
    )


def unknown_system(given: str) -> GameError:
    return GameError(
        "invalid_system",
        f"Unknown system: {given}. Use 'search_systems' to find its ID.",
    )
