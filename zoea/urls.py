"""All routes. The probes /healthz and /readyz are in ``zoea.middleware``."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.auth.decorators import login_not_required
from django.urls import include, path
from django.views.decorators.csrf import csrf_exempt
from django.views.generic import RedirectView

from zoea import views
from zoea.api import api, read_document
from zoea.auth import API_ROOT, LINK_ROOT
from zoea.metrics import metrics

admin.autodiscover()

handler500 = "zoea.views.server_error"

api_urls = api.urls


# The API is no page to sign in for: programs have tokens for its gate, which checks the
# CSRF token of a session as well.
for route in api_urls[0]:
    if route.callback:
        route.callback = csrf_exempt(login_not_required(route.callback))

link_root = LINK_ROOT.removeprefix("/")
icon = RedirectView.as_view(url="/static/img/zoea.svg")

urlpatterns = [
    # Before ninja's own.
    path(f"{API_ROOT.lstrip('/')}/openapi.json", login_not_required(read_document)),
    path(f"{API_ROOT.lstrip('/')}/", api_urls),
    path("metrics", metrics, name="metrics"),
    path(f"{link_root}/", views.sign_in, name="sign-in"),
    path(f"{link_root}/<str:secret>/", views.sign_in_link, name="sign-in-link"),
    path("ws/v1/events", views.socket_alone),
    path("ws/dashboard/", views.socket_alone),
    path("sign-out/", views.sign_out, name="sign-out"),
    path("password/", views.change_password, name="password"),
    # The stock pages would let one try passwords without a limit.
    path("admin/login/", views.admin_sign_in),
    path("admin/password_change/", RedirectView.as_view(pattern_name="password")),
    path("admin/", admin.site.urls),
    path("favicon.ico", login_not_required(icon)),
    path("", include("agents.urls")),
]
