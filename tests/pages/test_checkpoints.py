"""What a job's page shows of its checkpoints, and the button that has it save."""

import pytest
from django.test import Client

from clusters.models import Command
from federation.models import Attempt, Job
from federation.services.checkpoint import FROM_COMMENT, FROM_JOB, Proof, record_proofs
from tests.pages.scene import Scene
from tests.pages.test_pages import text

SAVES = {"signal": "USR2", "grace": 90, "interval": None, "store": None}


@pytest.fixture
def running(scene: Scene) -> Job:
    """A job that runs and can save."""
    attempt = Attempt.objects.filter(state="running").select_related("job").first()
    assert attempt is not None
    job = attempt.job
    job.spec = {**job.spec, "checkpoint": SAVES}
    job.state = "running"
    job.save()
    return job


def test_the_page_says_what_is_saved_and_how_it_is_asked(
    mia: Client, running: Job, scene: Scene
) -> None:
    before = text(mia, f"/jobs/{running.uuid}")
    assert "no checkpoint proven" in before
    assert "USR2, then 90 s to save" in before
    attempt = running.attempts.latest("number")
    for proof in (
        Proof(attempt.id, 1200, "/lustre/<run>/1200", FROM_JOB),
        Proof(attempt.id, 1800, "", FROM_COMMENT),
    ):
        record_proofs(proofs=[proof], now=scene.now)
    page = text(mia, f"/jobs/{running.uuid}")
    assert "step 1,800" in page
    assert f"Saved step 1200, attempt {attempt.number}" in page
    assert "It says so itself: /lustre/&lt;run&gt;/1200" in page
    assert f"Saved step 1800, attempt {attempt.number}" in page
    assert "It says so on its cluster" in page


def test_the_button_has_it_save(mia: Client, running: Job) -> None:
    address = f"/jobs/{running.uuid}/checkpoint"
    assert f'action="{address}"' in text(mia, f"/jobs/{running.uuid}")
    answer = mia.post(address, follow=True)
    page = answer.content.decode()
    assert "The job is being asked to save" in page
    assert "mia asked it to save: USR2 is sent" in page
    assert Command.objects.get(kind="signal").payload["name"] == "USR2"


def test_what_cannot_save_has_no_button_and_says_why(mia: Client, running: Job) -> None:
    Job.objects.filter(pk=running.pk).update(spec={**running.spec, "checkpoint": None})
    address = f"/jobs/{running.uuid}/checkpoint"
    assert address not in text(mia, f"/jobs/{running.uuid}")
    assert "has no `checkpoint`" in mia.post(address, follow=True).content.decode()
    assert not Command.objects.filter(kind="signal").exists()
