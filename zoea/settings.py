"""Settings, from the environment (see .env.example). Importing this starts nothing."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import global_settings
from django.core.exceptions import ImproperlyConfigured
from environs import Env, ValidationError, validate

from agents.game.local import read_running_game
from memory.gamestate.types import Thresholds, read_limits
from memory.secret_patterns import has_login, has_query
from zoea.files import read_or_make_token
from zoea.postgres import socket_directory


def load_keys(configured: str, data: Path) -> tuple[list[str], bool]:
    """The secret keys, newest first, and whether they are stored for the next start.

    ``configured`` is the comma-separated ZOEA_SECRET_KEY; if it is empty, a key file of
    mode 0600 in the data folder is read, or made.
    """
    keys = [key.strip() for key in configured.split(",") if key.strip()]
    if keys:
        return keys, True
    try:
        return [read_or_make_token(data / "secret.key")], True
    except OSError:
        return [secrets.token_urlsafe(48)], False


BASE_DIR = Path(__file__).resolve().parent.parent

env = Env()
env.read_env(str(BASE_DIR / ".env"), recurse=False)

ZOEA_DATA = Path(env.str("ZOEA_DATA", "") or BASE_DIR / ".zoea").expanduser().resolve()
ZOEA_KEYS, ZOEA_KEYS_KEPT = load_keys(env.str("ZOEA_SECRET_KEY", ""), ZOEA_DATA)
SECRET_KEY = ZOEA_KEYS[0]
SECRET_KEY_FALLBACKS = ZOEA_KEYS[1:]

ALLOWED_HOSTS = env.list("ZOEA_ALLOWED_HOSTS", ["127.0.0.1", "localhost", "[::1]"])
# Full origins (scheme, host, port) of reverse proxies in front of the server;
# the origin that a request itself was made to is always allowed.
ZOEA_ORIGINS: list[str] = env.list("ZOEA_ORIGINS", [])
CSRF_TRUSTED_ORIGINS = ZOEA_ORIGINS

INSTALLED_APPS = [
    "whitenoise.runserver_nostatic",
    # Its pages are discovered by the routes: a worker has neither.
    "django.contrib.admin.apps.SimpleAdminConfig",
    # Before auth, whose commands on users it enters into the audit log.
    "zoea",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "django.contrib.humanize",
    "channels",
    "django_htmx",
    "ninja",
    "memory",
    "agents",
    # After ours, whose command `procrastinate` comes before its own.
    "procrastinate.contrib.django",
]

MIDDLEWARE = [
    "zoea.middleware.HealthMiddleware",
    "zoea.middleware.TracingMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "zoea.middleware.MethodMiddleware",
    "zoea.middleware.PartOrPageMiddleware",
    "zoea.middleware.CompressionMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "zoea.middleware.PrivateAnswersMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    # Before the CSRF check, which a stranger without a cookie would fail.
    "zoea.middleware.SignInRequiredMiddleware",
    "zoea.middleware.ActorMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "zoea.middleware.AdminAddressMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "zoea.middleware.WriteLimitMiddleware",
    "zoea.api.gate.ApiGateMiddleware",
    "zoea.middleware.MaskingMiddleware",
]

ROOT_URLCONF = "zoea.urls"
ASGI_APPLICATION = "zoea.asgi.application"
LOGIN_URL = "sign-in"
LOGIN_REDIRECT_URL = "fleet"
LOGOUT_REDIRECT_URL = "sign-in"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "OPTIONS": {
            "loaders": [
                (
                    "django.template.loaders.cached.Loader",
                    [
                        "zoea.template_loader.Loader",
                        "django.template.loaders.app_directories.Loader",
                    ],
                )
            ],
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "agents.views.hits.add_hit_walk",
            ],
        },
    }
]


def _read_ages() -> Mapping[str, Thresholds]:
    try:
        return read_limits(env.str("ZOEA_STATE_AGES", ""))
    except ValueError as error:
        raise ImproperlyConfigured(f"ZOEA_STATE_AGES: {error}") from error


def refuse_login(address: str) -> None:
    """Refuse a web address with a name and password: it is shown and logged."""
    try:
        refused = has_login(address)
    except ValueError as error:
        raise ValidationError(f"this is no web address: {error}.") from error
    if refused:
        raise ValidationError("take the name and the password out of the address.")


def refuse_query(address: str) -> None:
    """Refuse what follows the path of a provider's address: it may be a key."""
    if has_query(address):
        raise ValidationError("take the part after ? or # out of the address.")


def is_local_game(url: str) -> bool:
    """Whether a game runs on this machine or in its network, as the sandbox does."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_private
    except ValueError:
        return "." not in host


def openings_at(url: str) -> int:
    """How many sessions a minute may be opened at a game, 0 for any number.

    A local game takes any number, SpaceMolt some 30 from one address.
    """
    return 0 if is_local_game(url) else 25


# How a pool tries to connect again: for as long as that takes, at most 4 s apart. By
# itself it would double its pauses for five minutes, and then leave who waits alone.
ZOEA_POOL_PATIENCE: dict[str, Any] = {
    "reconnect_timeout": 8,
    "reconnect_failed": lambda pool: pool.check(),
}


# Behind a pooler in transaction mode nothing lasts longer than a transaction: no LISTEN,
# so that all must be looked for, and no lock of a worker.
ZOEA_PGBOUNCER = env.bool("ZOEA_PGBOUNCER", False)


def _read_database() -> dict[str, Any]:
    url = env.str("DATABASE_URL", "")
    if url:
        found: dict[str, Any] = env.dj_db_url("DATABASE_URL")
    else:
        found = {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": "zoea",
            "USER": "postgres",
            "HOST": str(socket_directory(ZOEA_DATA)),
        }
    found["CONN_MAX_AGE"] = 0
    # Of the pool: after a restart of the server none of its connections is of any use.
    found["CONN_HEALTH_CHECKS"] = True
    found.setdefault("OPTIONS", {})
    found["OPTIONS"] |= {
        "pool": {
            "min_size": 1,
            "max_size": env.int("ZOEA_DB_POOL", 20),
            "timeout": 20,
            "max_idle": 30,
            **ZOEA_POOL_PATIENCE,
        },
        "connect_timeout": 10,
        # Of a server whose machine is gone nobody says so: else a step waits for hours.
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 20_000,
        # What a pooler in transaction mode prepares, its next client does not find.
        "prepare_threshold": None if ZOEA_PGBOUNCER else 2,
    }
    # Tests use the same server under another name; a server-side pooler in
    # transaction mode cannot keep a named cursor open between statements.
    found["DISABLE_SERVER_SIDE_CURSORS"] = ZOEA_PGBOUNCER
    return found


ZOEA_EMBEDDED_POSTGRES = not env.str("DATABASE_URL", "")
DATABASES = {"default": _read_database()}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

PASSWORD_HASHERS = [
    f"zoea.auth.Bounded{path.rpartition('.')[2]}"
    for path in global_settings.PASSWORD_HASHERS
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_I18N = False
FORMAT_MODULE_PATH = "zoea.formats"

STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
# Served from the source tree; collectstatic is for who has another server do it.
WHITENOISE_USE_FINDERS = True
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage",
        "OPTIONS": {"location": ZOEA_DATA / "static"},
    },
}

# Trusted proxies in front: the visitor's address stands that many places from the right
# in X-Forwarded-For; what is further left is only claimed.
ZOEA_PROXIES = env.int("ZOEA_PROXIES", 0, validate=validate.Range(0, 10))
# Behind a TLS proxy set ZOEA_TLS=1: cookies then travel over HTTPS only.
ZOEA_TLS = env.bool("ZOEA_TLS", False)
SESSION_COOKIE_SECURE = ZOEA_TLS
CSRF_COOKIE_SECURE = ZOEA_TLS
SECURE_HSTS_SECONDS = 31_536_000 if ZOEA_TLS else 0
SECURE_SSL_REDIRECT = ZOEA_TLS
if ZOEA_TLS:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
# The loopback default has no TLS to insist on. What else runs below a domain is its
# owner's to promise, so neither subdomains nor the browsers' own list are named (5, 21).
SILENCED_SYSTEM_CHECKS = [
    f"security.W{n:03}" for n in ((5, 21) if ZOEA_TLS else (4, 8, 12, 16))
]

SECURE_CSP = {
    "default-src": "'self'",
    "img-src": "'self' data:",
    "base-uri": "'none'",
    "object-src": "'none'",
    "form-action": "'self'",
    "frame-ancestors": "'none'",
}

DATA_UPLOAD_MAX_MEMORY_SIZE = 1024 * 1024
FILE_UPLOAD_MAX_MEMORY_SIZE = 1024 * 1024

# The game: the one that is named, else that of a running ``manage.py up``.
ZOEA_GAME_NAMED = bool(env.str("SPACEMOLT_MCP_URL", ""))
_game, _tick = ("", None) if ZOEA_GAME_NAMED else read_running_game(ZOEA_DATA)
SPACEMOLT_MCP_URL = (
    env.str("SPACEMOLT_MCP_URL", "", validate=refuse_login)
    or _game
    or "http://127.0.0.1:8765/mcp"
)
SPACEMOLT_REGISTRATION_CODE = env.str("SPACEMOLT_REGISTRATION_CODE", "")
# Sessions that may be opened at it in a minute, logins included; 0: any number.
ZOEA_GAME_OPENINGS = env.int(
    "ZOEA_GAME_OPENINGS", openings_at(SPACEMOLT_MCP_URL), validate=validate.Range(0)
)
ZOEA_SECONDS_PER_TICK = env.float("ZOEA_SECONDS_PER_TICK", _tick or 10.0)
ZOEA_STATE_BLOCK_BYTES = env.int("ZOEA_STATE_BLOCK_BYTES", 2048)
# Ages at which facts stop counting; the defaults are in memory/gamestate/confidence.py.
ZOEA_STATE_AGES = _read_ages()
# Whether the worker fetches the game's events at the start of each turn.
ZOEA_FETCH_EVENTS = env.bool("ZOEA_FETCH_EVENTS", True)
# Whether the worker asks for the map of the galaxy itself, where it has none of today.
ZOEA_FETCH_MAP = env.bool("ZOEA_FETCH_MAP", is_local_game(SPACEMOLT_MCP_URL))
# Queues that turns are spread over; see docs/operations.md before it is changed.
ZOEA_TURN_SHARDS = env.int("ZOEA_TURN_SHARDS", 1, validate=validate.Range(1, 1024))
# When a Mysis gets the badge "stuck": equal results of one call; turns without effect.
ZOEA_STUCK_RESULTS = env.int("ZOEA_STUCK_RESULTS", 5, validate=validate.Range(2))
ZOEA_STUCK_TURNS = env.int("ZOEA_STUCK_TURNS", 6, validate=validate.Range(2))
# Turns of a Mysis with an open order and without a report, after which it is overdue,
# and minutes: one that is held or idle begins no turn.
ZOEA_ORDER_TURNS = env.int("ZOEA_ORDER_TURNS", 10, validate=validate.Range(1))
ZOEA_ORDER_MINUTES = env.int("ZOEA_ORDER_MINUTES", 30, validate=validate.Range(1))
# Days for which `manage.py prune` leaves the audit log alone, however few it is given.
ZOEA_AUDIT_DAYS = env.int("ZOEA_AUDIT_DAYS", 365, validate=validate.Range(0, 36_500))
# Seconds of pauses between failures in a row, after which a Mysis is errored.
ZOEA_ERRORED_AFTER = env.float("ZOEA_ERRORED_AFTER", 3600, validate=validate.Range(0))
ZOEA_ON_LOGOUT = env.str(
    "ZOEA_ON_LOGOUT",
    "tombstone",
    validate=validate.OneOf(("tombstone", "delete", "preserve")),
)

# LLM endpoints from the environment; a Provider row of that name wins.
_PROVIDER = [refuse_login, refuse_query]
OPENAI_BASE_URL = env.str("OPENAI_BASE_URL", "", validate=_PROVIDER)
OPENAI_API_KEY = env.str("OPENAI_API_KEY", "")
ANTHROPIC_API_KEY = env.str("ANTHROPIC_API_KEY", "")
OLLAMA_BASE_URL = env.str("OLLAMA_BASE_URL", "", validate=_PROVIDER)
METRICS_PUBLIC = env.bool("METRICS_PUBLIC", False)

# Imported by whoever runs jobs: who only queues them needs neither models nor the game.
PROCRASTINATE_AUTODISCOVER_MODULE_NAME = ""
PROCRASTINATE_IMPORT_PATHS = ["agents.tasks"]
# The queue forgets a worker that is silent for so long: longer than one that holds its
# lock may be starved (agents/runtime/recovery.py).
ZOEA_STALLED_SECONDS = 90.0
PROCRASTINATE_WORKER_DEFAULTS = {
    "concurrency": 16,
    "delete_jobs": "successful",
    "update_heartbeat_interval": 5.0,
    "stalled_worker_timeout": ZOEA_STALLED_SECONDS,
    # Seconds. A worker is told of each job when it is due (`manage.py procrastinate`);
    # where the database tells of nothing, only polling finds them.
    "fetch_job_polling_interval": 0.5 if ZOEA_PGBOUNCER else 5.0,
    # Jobs that still run then are cancelled and taken over by other workers.
    "shutdown_graceful_timeout": 2.0,
}

# A worker that has more memory finishes its turns and ends, to be started again. 0: none.
ZOEA_WORKER_MEMORY_MB = env.int(
    "ZOEA_WORKER_MEMORY_MB", 1000, validate=validate.Range(0)
)

# How lines of logs look; `zoea.json_logs` reads it too, where settings cannot be.
ZOEA_LOG_FORMAT = env.str(
    "ZOEA_LOG_FORMAT", "text", validate=validate.OneOf(("text", "json"))
)
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {
            "()": "memory.redaction.MaskingFormatter",
            "fmt": "%(asctime)s %(levelname)s %(name)s: %(message)s",
        },
        "json": {"()": "zoea.json_logs.JsonFormatter"},
    },
    "handlers": {
        "console": {
            "class": "logging.StreamHandler",
            "formatter": "json" if ZOEA_LOG_FORMAT == "json" else "line",
        }
    },
    "root": {"handlers": ["console"], "level": env.str("ZOEA_LOG_LEVEL", "WARNING")},
    "loggers": {
        "zoea": {"level": "INFO"},
        "agents": {"level": "INFO"},
        "memory": {"level": "INFO"},
        # They tell whole addresses at INFO; those of alert targets are secrets.
        "httpx2": {"level": "WARNING"},
        "httpcore2": {"level": "WARNING"},
        # Refused requests are the client's business, not an incident.
        "django.request": {"level": "ERROR"},
        "django.security.DisallowedHost": {"level": "CRITICAL"},
    },
}
