"""The way in and out: sign-in page, one-time link, sign-out; and what fails on it."""

from __future__ import annotations

import math
import sys
import unicodedata

from django.conf import settings
from django.contrib.auth import login, logout
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render, resolve_url
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views import defaults
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from memory.lookup import Problem, busy_problem
from zoea import rate_limits
from zoea.api.gate import respond
from zoea.auth import API_ROOT, is_loopback, use_link

PAGE = "zoea/sign_in.html"
MOST_NAME = 150
JSON_DOORS = (f"{API_ROOT}/", "/metrics")
BACKEND = "django.contrib.auth.backends.ModelBackend"
# What a proxy adds: behind one, a loopback address says nothing of the visitor.
PROXIED = ("Forwarded", "X-Forwarded-For", "X-Real-IP")
NEW_LINK = (
    "Start the program again (make up) for a new one, or sign in below with a name "
    "and password."
)


@login_not_required
@sensitive_post_parameters("password")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: HttpRequest) -> HttpResponseBase:
    """Sign in with name and password; wrong ones are slowed down."""
    if request.method != "POST":
        if request.user.is_authenticated:
            return redirect(target(request))
        return page(request, AuthenticationForm(request))
    address = str(request.META.get("REMOTE_ADDR", ""))
    pair = f"{address} {counted_name(request)}"
    wait = rate_limits.take_each(
        (rate_limits.wrong_passwords, pair), (rate_limits.wrong_names, address)
    )
    if wait:
        return refuse_for(request, wait)
    form = AuthenticationForm(request, data=request.POST)
    try:
        right = form.is_valid()
    except Exception as error:
        rate_limits.wrong_passwords.give_back(pair)
        rate_limits.wrong_names.give_back(address)
        return not_tried(request, error)
    if not right:
        return page(request, form, status=422)
    rate_limits.wrong_passwords.forget(pair)
    rate_limits.wrong_names.give_back(address)
    login(request, form.get_user())
    return redirect(target(request))


def counted_name(request: HttpRequest) -> str:
    """The name that tries are counted by: one for all ways to write it."""
    # As the form reads it, which takes no more characters and heeds the case.
    name = request.POST.get("username", "").strip()[:MOST_NAME]
    return unicodedata.normalize("NFKC", name).lower()


def not_tried(request: HttpRequest, error: Exception) -> HttpResponse:
    """The sign-in page with the 503 of an error; raises any error but a busy one."""
    problem = busy_problem(error)
    if problem is None:
        raise error
    answer = page(request, AuthenticationForm(request), problem.detail, status=503)
    answer["Retry-After"] = problem.headers["Retry-After"]
    return answer


@require_http_methods(["GET", "HEAD", "POST"])
def admin_sign_in(request: HttpRequest) -> HttpResponseBase:
    """The admin has no sign-in of its own: one page, one limit for passwords."""
    if request.user.is_authenticated:
        raise PermissionDenied
    return redirect_to_login(request.GET.get("next") or reverse("admin:index"))


def refuse_for(request: HttpRequest, wait: float) -> HttpResponse:
    """Too many wrong passwords: say how long to wait."""
    seconds = math.ceil(wait)
    said = f"Too many wrong passwords. Try again in {seconds} seconds."
    answer = page(request, AuthenticationForm(request), said, status=429)
    answer["Retry-After"] = str(seconds)
    return answer


@login_not_required
@never_cache
@require_http_methods(["GET", "HEAD"])
def sign_in_link(request: HttpRequest, secret: str) -> HttpResponseBase:
    """Sign in by a one-time link, from this machine only.

    A HEAD or a prefetch looks at the link without using it up.
    """
    if not is_local(request):
        said = "This link works only on the machine that runs the program."
        return page(request, AuthenticationForm(request), said, status=403)
    if request.method == "HEAD" or "prefetch" in purpose(request):
        return HttpResponse(status=204)
    user = use_link(secret)
    if user is None:
        said = f"This link was used already, or never was one. {NEW_LINK}"
        return page(request, AuthenticationForm(request), said, status=410)
    login(request, user, backend=BACKEND)
    return redirect(settings.LOGIN_REDIRECT_URL)


def is_local(request: HttpRequest) -> bool:
    """Whether the visitor sits at this machine, as far as can be known."""
    if any(name in request.headers for name in PROXIED):
        return False
    return is_loopback(request.META.get("REMOTE_ADDR"))


def purpose(request: HttpRequest) -> str:
    """What a browser says it loads a page for, when not to show it."""
    names = ("Sec-Purpose", "Purpose", "X-Purpose", "X-Moz")
    return " ".join(request.headers.get(name, "") for name in names).lower()


@require_POST
def sign_out(request: HttpRequest) -> HttpResponseBase:
    """End the session."""
    logout(request)
    return redirect(settings.LOGOUT_REDIRECT_URL)


def page(
    request: HttpRequest, form: AuthenticationForm, said: str = "", *, status: int = 200
) -> HttpResponse:
    """The sign-in page."""
    context = {"form": form, "said": said, "next": wanted(request)}
    return render(request, PAGE, context, status=status)


def wanted(request: HttpRequest) -> str:
    """Where the visitor was going."""
    return request.POST.get("next", request.GET.get("next", ""))


def target(request: HttpRequest) -> str:
    """Where to go now: back there, if it is a page of this site."""
    url = wanted(request)
    safe = url_has_allowed_host_and_scheme(
        url, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return url if safe else resolve_url(settings.LOGIN_REDIRECT_URL)


def server_error(request: HttpRequest) -> HttpResponse:
    """What Django answers an error with: 503 where there was no room, else 500."""
    problem = busy_problem(sys.exception())
    if problem is None:
        return defaults.server_error(request)
    answer = no_room(request, problem)
    # It may have come in the middle of a write: see ``zoea.idempotency``.
    answer.broke_off = True  # type: ignore[attr-defined]
    return answer


def no_room(request: HttpRequest, problem: Problem) -> HttpResponse:
    """The 503 in the form of the door; nothing in it needs the database."""
    if request.path_info.startswith(JSON_DOORS):
        return respond(problem)
    text = render_to_string("503.html", {"said": problem.detail})
    return HttpResponse(text, status=503, headers=problem.headers)
