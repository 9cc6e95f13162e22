"""Who may do what on the pages; reading is for everybody who is signed in.

The same three steps as over REST: superusers administer, staff operates, all
others look on.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec

from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse

from .answers import refuse

P = ParamSpec("P")
View = Callable[Concatenate[HttpRequest, P], HttpResponse]


def operates(request: HttpRequest) -> bool:
    """Whether the user may start, stop and send messages."""
    user = request.user
    return isinstance(user, User) and (user.is_staff or user.is_superuser)


def administers(request: HttpRequest) -> bool:
    """Whether the user may create Myses and edit prompts and policies."""
    return isinstance(request.user, User) and request.user.is_superuser


def operator_required(view: View[P]) -> View[P]:
    """Refuse viewers, in words."""
    return _required(view, operates, "an operator")


def admin_required(view: View[P]) -> View[P]:
    """Refuse viewers and operators, in words."""
    return _required(view, administers, "an admin")


def _required(
    view: View[P], allowed: Callable[[HttpRequest], bool], who: str
) -> View[P]:
    @wraps(view)
    def checked(
        request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs
    ) -> HttpResponse:
        if allowed(request):
            return view(request, *args, **kwargs)
        words = f"This needs {who}: ask for the role, or sign in as somebody else."
        return refuse(request, words, status=403)

    return checked


def actor(request: HttpRequest) -> str:
    """How the log names the user."""
    return f"operator:{request.user.get_username()}"
