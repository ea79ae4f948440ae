"""What was asked, decided and tried: jobs, attempts, decisions, the arbiter's term; simulations."""

from federation.models.decisions import ArbiterTerm, Decision, Reservation
from federation.models.jobs import Attempt, Job, Telling
from federation.models.simulations import Simulation

__all__ = [
    "ArbiterTerm",
    "Attempt",
    "Decision",
    "Job",
    "Reservation",
    "Simulation",
    "Telling",
]
