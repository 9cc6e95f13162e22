"""The tables of the fleet."""

from __future__ import annotations

from agents.models.alerts import AlarmEvidence as AlarmEvidence
from agents.models.alerts import Alert as Alert
from agents.models.alerts import AlertDelivery as AlertDelivery
from agents.models.alerts import AlertSettings as AlertSettings
from agents.models.alerts import AlertTarget as AlertTarget
from agents.models.alerts import KnownBase as KnownBase
from agents.models.alerts import Rule as Rule
from agents.models.budgets import Budget as Budget
from agents.models.budgets import BudgetSpend as BudgetSpend
from agents.models.fleet import Account as Account
from agents.models.fleet import ErrorCode as ErrorCode
from agents.models.fleet import Mysis as Mysis
from agents.models.fleet import Pin as Pin
from agents.models.llm import AskedWindow as AskedWindow
from agents.models.llm import Prompt as Prompt
from agents.models.llm import PromptVersion as PromptVersion
from agents.models.llm import Provider as Provider
from agents.models.orders import Broadcast as Broadcast
from agents.models.orders import Order as Order
from agents.models.orders import OrderRecipient as OrderRecipient
from agents.models.orders import OrderState as OrderState
from agents.models.replays import Replay as Replay
from agents.models.replays import ReplayCall as ReplayCall
from agents.models.rewinds import Rewind as Rewind
from agents.models.rewinds import RewindStep as RewindStep
from agents.models.runs import CreditChange as CreditChange
from agents.models.runs import Delivery as Delivery
from agents.models.runs import Event as Event
from agents.models.runs import Fence as Fence
from agents.models.runs import GameGate as GameGate
from agents.models.runs import ModelCall as ModelCall
from agents.models.runs import ToolCatalogue as ToolCatalogue
from agents.models.runs import ToolPolicy as ToolPolicy
from agents.models.runs import Turn as Turn
from agents.models.runs import UnknownOutcome as UnknownOutcome
from agents.models.runs import Usage as Usage
from agents.models.runs import WorkerLock as WorkerLock
from agents.models.users import SavedView as SavedView
from agents.models.users import Visit as Visit
