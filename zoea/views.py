"""Sign-in page, one-time link, sign-out, and the page of a server error."""

from __future__ import annotations

import math
import sys
import unicodedata
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import login, logout
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import AuthenticationForm, PasswordChangeForm
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import password_validators_help_texts
from django.contrib.auth.views import PasswordChangeView, redirect_to_login
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.http.request import split_domain_port
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render, resolve_url
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views import defaults
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from memory.audit import record, record_failed_sign_in
from memory.problems import Problem, find_busy
from zoea import rate_limits
from zoea.api.gate import answer_problem
from zoea.auth import (
    API_ROOT,
    AuditedPasswordMixin,
    find_address,
    is_loopback,
    use_sign_in_link,
)
from zoea.proxies import is_added_by_proxy, refuses_links

PAGE = "zoea/sign_in.html"
MAX_NAME = 150
JSON_PATHS = (f"{API_ROOT}/", "/metrics")
BACKEND = "django.contrib.auth.backends.ModelBackend"
NEW_LINK = (
    "Start the program again (make up) for a new one, or sign in below with a name "
    "and password."
)


@dataclass(frozen=True, slots=True)
class Tries:
    """Passwords that are tried for a name from an address, or from its network."""

    pair: str
    network: str

    @classmethod
    def by(cls, address: str, name: str) -> Tries:
        """Those for a name, one for all ways to write it."""
        network = rate_limits.find_network(address)
        written = unicodedata.normalize("NFKC", name).lower()
        return cls(f"{network} {written}", network)

    def take(self) -> float:
        """Count one more; 0.0 if it may be tried, else the seconds to wait."""
        # The network first: what it refuses leaves no trace of the name.
        return rate_limits.take_each(
            (rate_limits.wrong_names, self.network),
            (rate_limits.wrong_passwords, self.pair),
        )

    def give_back(self) -> None:
        """Undo one that said nothing about the password."""
        rate_limits.wrong_passwords.give_back(self.pair)
        rate_limits.wrong_names.give_back(self.network)

    def forget(self) -> None:
        """Count none of this name any more: the last password was right."""
        rate_limits.wrong_passwords.forget(self.pair)
        rate_limits.wrong_names.give_back(self.network)


@login_not_required
@sensitive_post_parameters("password")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: HttpRequest) -> HttpResponseBase:
    """Sign in with name and password; wrong ones are limited."""
    if request.method != "POST":
        if request.user.is_authenticated:
            return redirect(_landing_page(request))
        return _render_page(request, AuthenticationForm(request))
    address = find_address(request)
    tries = Tries.by(address, _read_name(request))
    if wait := tries.take():
        seconds = math.ceil(wait)
        said = f"Too many wrong passwords. Try again in {seconds} seconds."
        return _refuse_try(request, said, 429, str(seconds))
    form = AuthenticationForm(request, data=request.POST)
    try:
        right = form.is_valid()
    except Exception as error:
        tries.give_back()
        problem = find_busy(error)
        if problem is None:
            raise
        retry_after = problem.headers["Retry-After"]
        return _refuse_try(request, problem.detail, 503, retry_after)
    if not right:
        name = _read_name(request)
        # Else not as it was typed: people type passwords there.
        known = User.objects.filter(username=name).exists()
        who = name if known else "unknown user"
        record_failed_sign_in(who, address, f"user:{name}" if known else "user")
        return _render_page(request, form, status=422)
    tries.forget()
    _log_in(request, form.get_user(), "password")
    return redirect(_landing_page(request))


@login_not_required
@never_cache
@require_http_methods(["GET", "HEAD"])
def sign_in_link(request: HttpRequest, secret: str) -> HttpResponseBase:
    """Sign in by a one-time link, from this machine only.

    A HEAD or a prefetch does not use the link up.
    """
    if not _is_local(request):
        said = (
            "This link works only on the machine that runs the program, without a "
            "proxy between: sign in below with a name and password."
        )
        return _render_page(request, AuthenticationForm(request), said, status=403)
    if request.method == "HEAD" or "prefetch" in _prefetch_purpose(request):
        return HttpResponse(status=204)
    user = use_sign_in_link(secret)
    if user is None:
        said = f"This link was used already, or never was one. {NEW_LINK}"
        return _render_page(request, AuthenticationForm(request), said, status=410)
    _log_in(request, user, "one-time link")
    return redirect(settings.LOGIN_REDIRECT_URL)


@require_http_methods(["GET", "HEAD", "POST"])
def admin_sign_in(request: HttpRequest) -> HttpResponseBase:
    """Redirect the admin's sign-in to ours: one page, one limit for passwords."""
    if request.user.is_authenticated:
        raise PermissionDenied
    return redirect_to_login(request.GET.get("next") or reverse("admin:index"))


@sensitive_post_parameters()
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def change_password(request: HttpRequest) -> HttpResponseBase:
    """The page of one's own password, which records that it was changed.

    The old one may be tried no more often than elsewhere.
    """
    if request.method != "POST":
        return _render_password_page(request)
    tries = Tries.by(find_address(request), request.user.get_username())
    if wait := tries.take():
        seconds = math.ceil(wait)
        context = {"seconds": seconds, "heading": "Too many wrong passwords."}
        answer = render(request, "429.html", context, status=429)
        answer["Retry-After"] = str(seconds)
        return answer
    try:
        found = _render_password_page(request)
    except Exception:
        # No word of the password: it was the program that failed.
        tries.give_back()
        raise
    if found.status_code == HTTPStatus.FOUND:
        tries.forget()
        messages.success(request, "Your password is changed.")
    elif not _is_wrong_password(found):
        tries.give_back()
    return found


class OwnPasswordForm(AuditedPasswordMixin, PasswordChangeForm):
    """Django's form for one's own password."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Django's own are a list in HTML.
        told = password_validators_help_texts()
        self.fields["new_password1"].help_text = " ".join(told)


def _render_password_page(request: HttpRequest) -> HttpResponseBase:
    page = PasswordChangeView.as_view(
        form_class=OwnPasswordForm,
        template_name="zoea/password.html",
        success_url=reverse("fleet"),
    )
    return page(request)


def _is_wrong_password(answer: HttpResponseBase) -> bool:
    if not isinstance(answer, TemplateResponse):
        return False
    return "old_password" in (answer.context_data or {})["form"].errors


@require_POST
def sign_out(request: HttpRequest) -> HttpResponseBase:
    if request.user.is_authenticated:
        record("sign_out", f"user:{request.user.get_username()}")
    logout(request)
    return redirect(settings.LOGOUT_REDIRECT_URL)


@login_not_required
def socket_alone(request: HttpRequest) -> HttpResponse:
    """Tell whoever asks for a socket as for a page to upgrade."""
    said = "This address is a WebSocket: connect to it by ws:// or wss://."
    headers = {"Upgrade": "websocket"}
    return HttpResponse(said, "text/plain", status=426, headers=headers)


def server_error(request: HttpRequest) -> HttpResponse:
    """Django's answer to an exception: 503 for a busy database, else 500."""
    problem = find_busy(sys.exception())
    if problem is None:
        return defaults.server_error(request)
    answer = answer_busy(request, problem)
    # It may have come in the middle of a write: see ``zoea.idempotency``.
    answer.broke_off = True  # type: ignore[attr-defined]
    return answer


def answer_busy(request: HttpRequest, problem: Problem) -> HttpResponse:
    """The 503 of a page or of a program's request; it needs no database."""
    if request.path_info.startswith(JSON_PATHS):
        return answer_problem(problem)
    text = render_to_string("503.html", {"said": problem.detail})
    return HttpResponse(text, status=503, headers=problem.headers)


@transaction.atomic
def _log_in(request: HttpRequest, user: User, way: str) -> None:
    login(request, user, backend=BACKEND)
    name = user.get_username()
    record("sign_in", f"user:{name}", by=f"operator:{name}", after={"by": way})


def _read_name(request: HttpRequest) -> str:
    # No more characters than the form takes.
    return request.POST.get("username", "").strip()[:MAX_NAME]


def _refuse_try(
    request: HttpRequest, said: str, status: int, retry_after: str
) -> HttpResponse:
    answer = _render_page(request, AuthenticationForm(request), said, status=status)
    answer["Retry-After"] = retry_after
    return answer


def _is_local(request: HttpRequest) -> bool:
    """Whether the request comes from this machine, as far as can be known."""
    if refuses_links() or is_added_by_proxy(request.headers):
        return False
    # A proxy that adds no header passes on the name by which it was reached.
    name = split_domain_port(request.get_host())[0].strip("[]")
    is_named_local = name == "localhost" or is_loopback(name)
    return is_named_local and is_loopback(find_address(request))


def _prefetch_purpose(request: HttpRequest) -> str:
    """What a browser says it loads a page for, if not to show it."""
    names = ("Sec-Purpose", "Purpose", "X-Purpose", "X-Moz")
    return " ".join(request.headers.get(name, "") for name in names).lower()


def _render_page(
    request: HttpRequest, form: AuthenticationForm, said: str = "", *, status: int = 200
) -> HttpResponse:
    context = {"form": form, "said": said, "next": _next_address(request)}
    return render(request, PAGE, context, status=status)


def _next_address(request: HttpRequest) -> str:
    return request.POST.get("next", request.GET.get("next", ""))


def _landing_page(request: HttpRequest) -> str:
    """The page to go to after sign-in: the one asked for, if it is of this site."""
    url = _next_address(request)
    safe = url_has_allowed_host_and_scheme(
        url, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return url if safe else resolve_url(settings.LOGIN_REDIRECT_URL)
