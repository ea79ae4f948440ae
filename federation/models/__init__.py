"""What was asked, decided and tried: jobs, attempts, decisions, the arbiter's term."""

from federation.models.decisions import ArbiterTerm, Decision, Reservation
from federation.models.jobs import Attempt, Job

__all__ = ["ArbiterTerm", "Attempt", "Decision", "Job", "Reservation"]
