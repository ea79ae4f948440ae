"""Whatever process answers with an error code, `web` knows what it means."""

import re
import subprocess
import sys
from pathlib import Path

APPS = ("kit", "tenancy", "clusters", "quotas", "accounting", "federation", "config")
CODE = re.compile(r'^    code, status, title = "(\w+)"', re.MULTILINE)
# As gunicorn loads it.
WEB = "import config.wsgi, config.urls; from kit.errors import REGISTRY; print(*REGISTRY)"


def test_web_can_explain_the_code_of_every_error() -> None:
    sources = [path.read_text() for app in APPS for path in Path(app).rglob("*.py")]
    declared = {code for text in sources for code in CODE.findall(text)}
    assert {"stream_unavailable", "web_away", "cluster_in_use"} <= declared
    told = subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-c", WEB], capture_output=True, text=True, check=True
    )
    assert declared <= set(told.stdout.split())
