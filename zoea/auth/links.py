"""One-time sign-in links, as ``manage.py up`` prints them."""

from __future__ import annotations

import ipaddress
import secrets
from datetime import timedelta

from django.contrib.auth.models import User
from django.urls import reverse
from django.utils import timezone

from zoea.models import SignInLink

from .tokens import digest_of

LOCAL_ADMIN = "admin"
KEPT = timedelta(days=7)


def create_sign_in_link() -> str:
    """Make a link that signs in once; returns its path on this server."""
    SignInLink.objects.filter(created_at__lt=timezone.now() - KEPT).delete()
    secret = secrets.token_urlsafe(32)
    SignInLink.objects.create(digest=digest_of(secret))
    return reverse("sign-in-link", args=[secret])


def use_link(secret: str) -> User | None:
    """Use a link up; the local admin, or None if it was used or never made.

    One statement decides, so of two that come at once only one gets in.
    """
    used = SignInLink.objects.filter(digest=digest_of(secret), used_at=None).update(
        used_at=timezone.now()
    )
    return local_admin() if used else None


def local_admin() -> User:
    """The superuser of the links; it has no password until one is set."""
    user, made = User.objects.get_or_create(
        username=LOCAL_ADMIN, defaults={"is_staff": True, "is_superuser": True}
    )
    if made:
        user.set_unusable_password()
        user.save(update_fields=["password"])
    return user


def is_loopback(address: str | None) -> bool:
    """Whether an address is this very machine."""
    try:
        found = ipaddress.ip_address((address or "").split("%")[0])
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)
    return (mapped or found).is_loopback
