"""Every write that a person or a program can ask for: atomic, with its events.

The row of a Mysis is locked before it is read, so that a start, a stop and the end of a
turn at the same moment have one order. ``by`` says who asked: "operator:ann",
"token:ci", "mysis:Ada", "system".
"""

from __future__ import annotations

from agents.actions.base import (
    MAX_TEXT,
    OPEN_STATES,
    ActionError,
    check_text,
    lock_mysis,
)
from agents.actions.lifecycle import (
    check_provider,
    create_mysis,
    delete_mysis,
    start_mysis,
    stop_mysis,
    update_mysis,
)
from agents.actions.messages import (
    count_recipients,
    resume_broadcasts,
    send_broadcast,
    send_message,
)
from agents.actions.settings import (
    DEFAULT_PROMPT_NAME,
    clear_failed_summaries,
    delete_budget,
    get_default_prompt,
    rollback_prompt,
    save_budget,
    save_prompt,
    take_back_summary,
)

__all__ = [
    "DEFAULT_PROMPT_NAME",
    "MAX_TEXT",
    "OPEN_STATES",
    "ActionError",
    "check_provider",
    "check_text",
    "clear_failed_summaries",
    "count_recipients",
    "create_mysis",
    "delete_budget",
    "delete_mysis",
    "get_default_prompt",
    "lock_mysis",
    "resume_broadcasts",
    "rollback_prompt",
    "save_budget",
    "save_prompt",
    "send_broadcast",
    "send_message",
    "start_mysis",
    "stop_mysis",
    "take_back_summary",
    "update_mysis",
]
