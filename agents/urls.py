"""The pages of the fleet."""

from __future__ import annotations

from django.urls import path

from agents.views import (
    alerts,
    commands,
    context,
    fleet,
    logs,
    mysis,
    notes,
    orders,
    saved_views,
    welcome,
)
from agents.views.commands import start_idle, start_or_stop

urlpatterns = [
    path("", fleet.fleet_page, name="fleet"),
    path("feed/", fleet.newest_feed, name="feed"),
    path("send/", commands.send, name="send"),
    path("bulk/", commands.act_on_many, name="bulk"),
    path("views/", saved_views.views_page, name="saved-views"),
    path("views/save/", saved_views.save_view, name="saved-view-save"),
    path(
        "views/<int:view_id>/change/",
        saved_views.change_view,
        name="saved-view-change",
    ),
    path("orders/", orders.orders_page, name="orders"),
    path("orders/<int:number>/", orders.order_page, name="order"),
    path("orders/<int:number>/names/", orders.order_names, name="order-names"),
    path("orders/<int:number>/change/", orders.change, name="order-change"),
    path("idle/start/", start_idle, {"act": "start"}, name="idle-start"),
    path("idle/restart/", start_idle, {"act": "restart"}, name="idle-restart"),
    path("map/", fleet.map_page, name="map"),
    path("map/ask/", fleet.ask_for_map, name="map-ask"),
    path("accounts/", fleet.accounts_page, name="accounts"),
    path("yield/", fleet.yield_page, name="yield"),
    path("health/", fleet.health_page, name="health"),
    path("alerts/", alerts.alerts_page, name="alerts"),
    path("alerts/settings/", alerts.save_settings, name="alert-settings"),
    path("alerts/targets/new/", alerts.edit_target, name="alert-target-new"),
    path("alerts/targets/<int:target_id>/", alerts.edit_target, name="alert-target"),
    path(
        "alerts/targets/<int:target_id>/delete/",
        alerts.delete_target,
        name="alert-target-delete",
    ),
    path(
        "alerts/targets/<int:target_id>/test/",
        alerts.test_target,
        name="alert-target-test",
    ),
    path("events/", logs.events_page, name="events"),
    path("search/", logs.search_page, name="search"),
    path("prompts/", logs.prompts_page, name="prompts"),
    path("prompts/<int:prompt_id>/", logs.prompt_page, name="prompt"),
    path("welcome/", welcome.welcome, name="welcome"),
    path("welcome/<str:step>/", welcome.welcome, name="welcome-step"),
    path("policies/", logs.policies_page, name="policies"),
    path("turns/<int:turn_id>/", mysis.turn_page, name="turn"),
    path(
        "turns/<int:turn_id>/calls/<int:number>/context/",
        context.call_context,
        name="call-context",
    ),
    path("myses/new/", mysis.new_mysis, name="mysis-new"),
    path("myses/<str:key>/", mysis.mysis_page, name="mysis"),
    path("myses/<str:key>/start/", start_or_stop, {"act": "start"}, name="mysis-start"),
    path("myses/<str:key>/stop/", start_or_stop, {"act": "stop"}, name="mysis-stop"),
    path("myses/<str:key>/context/", context.next_context, name="mysis-context"),
    path("myses/<str:key>/notes/", notes.notes_page, name="mysis-notes"),
    path("myses/<str:key>/notes/save/", notes.save_note, name="mysis-note-save"),
    path("myses/<str:key>/notes/forget/", notes.forget_note, name="mysis-note-forget"),
    path("myses/<str:key>/turns/", mysis.turns_page, name="mysis-turns"),
    path("myses/<str:key>/messages/", mysis.older_lines, name="mysis-messages"),
    path(
        "myses/<str:key>/messages/<int:memory_id>/inspect/",
        mysis.inspect_message,
        name="mysis-inspect",
    ),
    path(
        "myses/<str:key>/messages/<int:memory_id>/",
        mysis.whole_message,
        name="mysis-message",
    ),
]
