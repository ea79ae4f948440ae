"""The stream process with a quick pace and a short memory, for tests."""

from django.conf import settings

from config.asgi import Pace, build

application = build(
    database_url=settings.DATABASE_DIRECT_URL,
    upstream=settings.ENVIRONMENT.web_upstream,
    pace=Pace(heartbeat_s=0.3, recheck_s=0.3, stall_s=1.0),
    memory=50,
)
