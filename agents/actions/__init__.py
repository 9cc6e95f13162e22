"""Every write that a person or a program can ask for: atomic, with its events.

A Mysis's row is locked before it is read, so that a start, a stop and the end of a turn
have one order. ``by`` says who asked: "operator:ann", "token:ci", "mysis:Ada", "system".
"""

from __future__ import annotations

from agents.actions.base import MAX_TEXT as MAX_TEXT
from agents.actions.base import ActionError as ActionError
from agents.actions.base import check_text as check_text
from agents.actions.lifecycle import check_provider as check_provider
from agents.actions.lifecycle import create_mysis as create_mysis
from agents.actions.lifecycle import delete_mysis as delete_mysis
from agents.actions.lifecycle import start_mysis as start_mysis
from agents.actions.lifecycle import stop_mysis as stop_mysis
from agents.actions.lifecycle import update_mysis as update_mysis
from agents.actions.messages import count_recipients as count_recipients
from agents.actions.messages import send_broadcast as send_broadcast
from agents.actions.messages import send_message as send_message
from agents.actions.messages import send_order as send_order
from agents.actions.pins import add_pin as add_pin
from agents.actions.pins import rewrite_pin as rewrite_pin
from agents.actions.pins import set_pin_state as set_pin_state
from agents.actions.settings import DEFAULT_PROMPT_NAME as DEFAULT_PROMPT_NAME
from agents.actions.settings import choose_default_policy as choose_default_policy
from agents.actions.settings import clear_failed_summaries as clear_failed_summaries
from agents.actions.settings import delete_budget as delete_budget
from agents.actions.settings import delete_tool_policy as delete_tool_policy
from agents.actions.settings import get_default_prompt as get_default_prompt
from agents.actions.settings import rollback_prompt as rollback_prompt
from agents.actions.settings import save_budget as save_budget
from agents.actions.settings import save_prompt as save_prompt
from agents.actions.settings import save_provider as save_provider
from agents.actions.settings import save_tool_policy as save_tool_policy
from agents.actions.settings import take_back_summary as take_back_summary
