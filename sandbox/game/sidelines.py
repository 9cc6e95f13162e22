"""The tools beside the usual round: missions, storage, salvage, chat, workshop."""

from __future__ import annotations

from sandbox.game.parameters import Parameter
from sandbox.game.tool import ITEM, MOST_QUANTITY, QUANTITY, Tool, text

_GOODS = (ITEM, QUANTITY)
_IRON = {"item_id": "ore_iron", "quantity": 10}
_AMOUNT = Parameter(
    "amount", "integer", "How many credits", own_error=True, most=MOST_QUANTITY
)
_MISSION = text("mission_id", "The mission's ID")
_TRADE = text("trade_id", "The ID of the offer, from get_trades")
_CHANNEL = text("channel", "system, local or private")
_DOCKED = "You must be docked."

_MISSIONS = (
    Tool("get_missions", "missions", "See what the station offers.", notes=_DOCKED),
    Tool("get_active_missions", "missions", "See the missions you have accepted."),
    Tool(
        "accept_mission",
        "missions",
        "Accept a mission of this station.",
        (_MISSION,),
        {"mission_id": "iron_for_the_docks"},
        "At most five at a time.",
        mutation=True,
    ),
    Tool(
        "complete_mission",
        "missions",
        "Hand in a mission where you accepted it.",
        (_MISSION,),
        {"mission_id": "mission_id"},
        _DOCKED,
        mutation=True,
    ),
    Tool(
        "abandon_mission",
        "missions",
        "Give a mission up.",
        (_MISSION,),
        {"mission_id": "mission_id"},
        mutation=True,
        destructive=True,
    ),
)

_STORAGE = (
    Tool("view_storage", "storage", "See your storage at this base.", notes=_DOCKED),
    Tool(
        "deposit_items",
        "storage",
        "Put items from your hold into storage.",
        _GOODS,
        _IRON,
        _DOCKED,
        mutation=True,
    ),
    Tool(
        "withdraw_items",
        "storage",
        "Take items from storage into your hold.",
        _GOODS,
        _IRON,
        _DOCKED,
        mutation=True,
    ),
    Tool(
        "deposit_credits",
        "storage",
        "Put credits into storage.",
        (_AMOUNT,),
        {"amount": 100},
        _DOCKED,
        mutation=True,
    ),
    Tool(
        "withdraw_credits",
        "storage",
        "Take credits from storage.",
        (_AMOUNT,),
        {"amount": 100},
        _DOCKED,
        mutation=True,
    ),
)

_SALVAGE = (
    Tool("get_wrecks", "salvage", "See the wrecks at your location."),
    Tool(
        "loot_wreck",
        "salvage",
        "Take items from a wreck.",
        (text("wreck_id", "The wreck's ID, from get_wrecks"), *_GOODS),
        {"wreck_id": "wreck_id", **_IRON},
        mutation=True,
    ),
    Tool(
        "jettison",
        "salvage",
        "Throw items out into space.",
        _GOODS,
        _IRON,
        mutation=True,
        destructive=True,
    ),
    Tool(
        "self_destruct",
        "combat",
        "Destroy your own ship and wake up at your home base.",
        mutation=True,
        destructive=True,
    ),
)

_SOCIAL = (
    Tool(
        "chat",
        "social",
        "Say something to other captains.",
        (
            _CHANNEL,
            text("content", "What to say", longest=500),
            text("target_id", "Whom, for private", required=False),
        ),
        {"channel": "local", "content": "Hello."},
        writes=True,
    ),
    Tool(
        "get_chat_history",
        "social",
        "Read what was said on a channel.",
        (_CHANNEL,),
        {"channel": "local"},
    ),
    Tool("get_trades", "trading", "See the trade offers to you and from you."),
    Tool(
        "trade_offer",
        "trading",
        "Offer a trade to a captain docked at the same base.",
        (
            text("target_id", "The captain's ID, from get_nearby"),
            Parameter("offer_items", "items", "What you give", required=False),
            Parameter(
                "offer_credits",
                "integer",
                "Credits you give",
                required=False,
                least=0,
                most=MOST_QUANTITY,
            ),
            Parameter("request_items", "items", "What you want", required=False),
            Parameter(
                "request_credits",
                "integer",
                "Credits you want",
                required=False,
                least=0,
                most=MOST_QUANTITY,
            ),
        ),
        {"target_id": "player_id", "offer_items": [_IRON], "request_credits": 50},
        _DOCKED,
        mutation=True,
    ),
    *(
        Tool(
            f"trade_{verb}",
            "trading",
            f"{verb.capitalize()} a trade offer.",
            (_TRADE,),
            {"trade_id": "trade_id"},
            mutation=True,
        )
        for verb in ("accept", "decline", "cancel")
    ),
)

_WORKSHOP = (
    Tool("get_recipes", "crafting", "Get all recipes."),
    Tool(
        "craft",
        "crafting",
        "Make things at a base with a workshop.",
        (
            text("recipe_id", "The recipe's ID, from get_recipes"),
            Parameter("count", "integer", "How often, 1 to 10", required=False),
        ),
        {"recipe_id": "basic_iron_smelting", "count": 1},
        _DOCKED,
        mutation=True,
    ),
    Tool(
        "install_mod",
        "ship",
        "Fit a module from your hold.",
        (text("module_id", "The module's item ID"),),
        {"module_id": "mining_laser_1"},
        _DOCKED,
        mutation=True,
    ),
    Tool(
        "uninstall_mod",
        "ship",
        "Take a fitted module into your hold.",
        (text("module_id", "The fitted module's ID, from get_ship"),),
        {"module_id": "module_id"},
        _DOCKED,
        mutation=True,
    ),
    Tool(
        "set_home_base",
        "ship",
        "Wake up at this base after a death.",
        notes=_DOCKED,
        mutation=True,
    ),
)

SIDELINES: tuple[Tool, ...] = (
    *_MISSIONS,
    *_STORAGE,
    *_SALVAGE,
    *_SOCIAL,
    *_WORKSHOP,
)
