"""Ships that are kept, bought, named and loaded."""

from __future__ import annotations

from sandbox.game.listed.business import DOCKED
from sandbox.game.parameters import Parameter
from sandbox.game.tool import ITEM, MOST_QUANTITY, Tool, text

_SHIP = text("ship_id", "The ship's ID, from list_ships")
_CLASS = text("ship_class", "The class's ID")
_A_CLASS = {"ship_class": "courier_light"}
_HOW_MANY = Parameter(
    "quantity", "integer", "How many", required=False, least=1, most=MOST_QUANTITY
)

TOOLS = (
    Tool("get_ships", "ship", "List the ship classes that shipyards build."),
    Tool("list_ships", "ship", "List the ships you own."),
    Tool(
        "buy_ship",
        "ship",
        "Buy a ship; it is kept at this base.",
        (_CLASS,),
        _A_CLASS,
        DOCKED,
        mutation=True,
    ),
    Tool(
        "commission_ship",
        "ship",
        "Have a ship built; it is kept at this base when it is done.",
        (_CLASS,),
        _A_CLASS,
        DOCKED,
        mutation=True,
    ),
    Tool(
        "sell_ship",
        "ship",
        "Sell a ship that is kept at this base.",
        (_SHIP,),
        {"ship_id": "ship_id"},
        DOCKED,
        mutation=True,
        destructive=True,
    ),
    Tool(
        "switch_ship",
        "ship",
        "Change to another of your ships at this base.",
        (_SHIP,),
        {"ship_id": "ship_id"},
        DOCKED,
        mutation=True,
    ),
    Tool(
        "name_ship",
        "ship",
        "Give your ship a name.",
        (text("name", "1 to 40 characters"),),
        {"name": "Second Wind"},
        mutation=True,
    ),
    Tool(
        "use_item",
        "ship",
        "Use repair kits or fuel cells of your hold.",
        (ITEM, _HOW_MANY),
        {"item_id": "repair_kit", "quantity": 1},
        mutation=True,
    ),
    Tool(
        "reload",
        "combat",
        "Load a weapon from your hold.",
        (text("weapon_instance_id", "The weapon's module ID, from get_ship"),),
        {"weapon_instance_id": "module_id"},
        mutation=True,
    ),
    Tool(
        "cloak",
        "combat",
        "Hide your ship, or show it again.",
        (Parameter("enable", "boolean", "True to hide", required=False),),
        {"enable": True},
        mutation=True,
    ),
    Tool("get_battle_status", "combat", "See whom you are fighting."),
    Tool("get_queue", "query", "See the action that is under way."),
)
