"""Orders, estimates, gifts, missions, insurance and work at bases."""

from __future__ import annotations

from sandbox.game.parameters import Parameter
from sandbox.game.tool import ITEM, MOST_QUANTITY, QUANTITY, Tool, text

DOCKED = "You must be docked."


def amount(name: str, description: str) -> Parameter:
    return Parameter(name, "integer", description, own_error=True, most=MOST_QUANTITY)


_PRICE = amount("price_each", "Credits for one")
_ORDER = text("order_id", "The order's ID, from view_orders")
_OFFER = {"item_id": "ore_iron", "quantity": 10, "price_each": 6}
_COUNT = Parameter("count", "integer", "How often, 1 to 10", required=False)

_ORDERS = (
    Tool("view_orders", "trading", "See your open orders at this base.", notes=DOCKED),
    Tool("get_listings", "trading", "List what this station sells.", notes=DOCKED),
    Tool(
        "estimate_purchase",
        "trading",
        "See what a purchase would cost.",
        (ITEM, QUANTITY),
        {"item_id": "fuel_cell", "quantity": 5},
        DOCKED,
    ),
    Tool(
        "create_sell_order",
        "trading",
        "Offer items of your hold for sale.",
        (ITEM, QUANTITY, _PRICE),
        _OFFER,
        "What is earned goes to your storage. A listing fee is due.",
        mutation=True,
    ),
    Tool(
        "create_buy_order",
        "trading",
        "Offer to buy items.",
        (ITEM, QUANTITY, _PRICE),
        _OFFER,
        "Credits are escrowed. What is bought goes to your storage.",
        mutation=True,
    ),
    Tool(
        "modify_order",
        "trading",
        "Change the price of an order.",
        (_ORDER, amount("new_price", "Credits for one")),
        {"order_id": "order_id", "new_price": 7},
        DOCKED,
        mutation=True,
    ),
    Tool(
        "cancel_order",
        "trading",
        "Take an order back.",
        (_ORDER,),
        {"order_id": "order_id"},
        DOCKED,
        mutation=True,
    ),
    Tool(
        "send_gift",
        "storage",
        "Send items to another captain's storage at this base.",
        (text("recipient", "The captain's name"), ITEM, QUANTITY),
        {"recipient": "Ada", "item_id": "ore_iron", "quantity": 5},
        DOCKED,
        mutation=True,
    ),
)

_OFFICES = (
    Tool(
        "decline_mission",
        "missions",
        "Turn a mission down, so that it is not offered again.",
        (text("mission_id", "The mission's ID"),),
        {"mission_id": "iron_for_the_docks"},
        DOCKED,
        mutation=True,
    ),
    Tool("completed_missions", "missions", "See the missions you have completed."),
    Tool("get_insurance_quote", "ship", "See what insurance costs.", notes=DOCKED),
    Tool("buy_insurance", "ship", "Insure your ship.", notes=DOCKED, mutation=True),
    Tool(
        "claim_insurance",
        "ship",
        "Collect what is due for a lost ship.",
        notes=DOCKED,
        mutation=True,
    ),
    Tool(
        "facility",
        "facility",
        "Build a facility, or let the base produce from your storage.",
        (
            text("action", "build or produce"),
            text("facility_type", "What to build", required=False),
            text("recipe_id", "What to produce", required=False),
            _COUNT,
        ),
        {"action": "produce", "recipe_id": "basic_iron_smelting", "count": 1},
        DOCKED,
        mutation=True,
    ),
)

TOOLS = (*_ORDERS, *_OFFICES)
