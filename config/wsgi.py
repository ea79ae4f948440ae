"""The `web` process: Django under gunicorn."""

import gc
import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
application = get_wsgi_application()

# What is loaded now lives as long as the process: the collector need not walk it again and again.
# A batch of 1,000 jobs makes some 100,000 objects that live until the answer is sent; with Python's
# usual threshold the collector took a third of the request's time.
gc.collect()
gc.freeze()
gc.set_threshold(10_000, 20, 20)
