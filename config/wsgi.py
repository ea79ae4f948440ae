"""The `web` process: Django under gunicorn."""

import os

from django.core.wsgi import get_wsgi_application

from kit import collector

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
application = get_wsgi_application()
collector.settle()
