"""Django's settings, made from the one typed environment."""

import os
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from config.environment import read_environment, version
from config.queues import QUEUES as QUEUES

ENVIRONMENT = read_environment(os.environ)
BASE_DIR = Path(__file__).resolve().parent.parent
VERSION = version()


def _database(url: str) -> dict[str, object]:
    """Django's description of a `postgres://user:password@host:port/name?option=value` address."""
    parts = urlsplit(url)
    return {
        "ENGINE": "kit.postgres",
        "NAME": unquote(parts.path.lstrip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": unquote(parts.hostname or ""),
        "PORT": str(parts.port or ""),
        "OPTIONS": dict(parse_qsl(parts.query)),
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
        "TEST": {"NAME": ENVIRONMENT.test_db or None},
    }


DATABASES = {"default": _database(ENVIRONMENT.database_url)}
DATABASE_DIRECT_URL = ENVIRONMENT.database_direct_url
IS_POOLED = ENVIRONMENT.database_url != ENVIRONMENT.database_direct_url
KEEP_DAYS = {  # tables that are kept by month
    "tenancy_event": ENVIRONMENT.keep_events_days,
    "federation_decision": ENVIRONMENT.keep_decisions_days,
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

SECRET_KEY = ENVIRONMENT.secret_key
DEBUG = ENVIRONMENT.debug
ALLOWED_HOSTS = list(ENVIRONMENT.allowed_hosts)
CSRF_TRUSTED_ORIGINS = list(ENVIRONMENT.trusted_origins)
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = ENVIRONMENT.secure_cookies
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
USE_X_FORWARDED_HOST = False

INSTALLED_APPS = [
    "django.contrib.admin.apps.SimpleAdminConfig",  # discovered in config.urls: only web needs it
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_htmx",
    "rest_framework",
    "drf_spectacular",
    "tenancy",
    "clusters",
    "quotas",
    "accounting",
    "federation",
]
MIDDLEWARE = [
    "kit.logs.request_id_middleware",
    "django.middleware.security.SecurityMiddleware",
    "config.headers.content_security_policy",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "kit.problem.problem_middleware",
]
# What a request to the API that bears a token is spared (`config.wsgi`).
PAGES_ONLY = {
    "config.headers.content_security_policy",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
}
ROOT_URLCONF = "config.urls"
WSGI_APPLICATION = "config.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "builtins": ["kit.display"],
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]
AUTH_USER_MODEL = "tenancy.User"
AUTH_PASSWORD_VALIDATORS = [
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 12},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "/login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/login"

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = False

STATIC_URL = "/static/"
STATIC_ROOT = BASE_DIR / "staticfiles"
STATICFILES_DIRS = [BASE_DIR / "static"]
WHITENOISE_USE_FINDERS = True  # serves a fresh clone without collectstatic
WHITENOISE_AUTOREFRESH = False

DATA_UPLOAD_MAX_MEMORY_SIZE = 4 * 1024 * 1024

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "tenancy.permissions.TokenAuthentication",
        "tenancy.permissions.BrowserAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["tenancy.permissions.DenyUndeclared"],
    "DEFAULT_PARSER_CLASSES": ["kit.problem.StrictJsonParser"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "EXCEPTION_HANDLER": "kit.problem.exception_handler",
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "UNAUTHENTICATED_USER": None,
    "URL_FORMAT_OVERRIDE": None,  # `?format=` is an unknown parameter like any other
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Muster",
    "DESCRIPTION": "Several GPU clusters, one place to ask.",
    "VERSION": VERSION,
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "COMPONENT_SPLIT_REQUEST": True,
    "OAS_VERSION": "3.1.0",
    "POSTPROCESSING_HOOKS": ["config.openapi.add_components"],
}

CELERY_BROKER_URL = ENVIRONMENT.redis_url

# Read by the SDK itself, as all of OTEL_*. Its packages are in requirements-traces.txt.
TRACES_WANTED = bool(os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"))
TRACES = TRACES_WANTED and all(
    find_spec(name)
    for name in ("opentelemetry", "opentelemetry.instrumentation", "opentelemetry.sdk")
)

_FORMATTERS = {"text": "kit.logs.LineFormatter", "json": "kit.logs.JsonFormatter"}
_OWN_HANDLER = {"handlers": ["console"], "propagate": False}
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"()": _FORMATTERS[ENVIRONMENT.log_format]}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["console"], "level": ENVIRONMENT.log_level},
    "loggers": {
        "httpx": {"level": "WARNING"},
        # A line a tick would bury what matters.
        "celery.app.trace": {"level": "WARNING"},
        "celery.worker.strategy": {"level": "WARNING"},
        "celery.beat": {"level": "WARNING"},
        # The servers' lines in the form of ours.
        "gunicorn.error": _OWN_HANDLER,
        "uvicorn": _OWN_HANDLER,
    },
}
