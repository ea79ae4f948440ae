"""Volcano Jobs as they are: `read_vcjob` reads one, `vcjob_of` makes the job that it asks for."""

from federation.intake.vcjob.plugins import PLUGINS
from federation.intake.vcjob.policies import EVENTS
from federation.intake.vcjob.read import Document, read_vcjob, vcjob_of
from federation.intake.vcjob.table import FIELDS

__all__ = ["EVENTS", "FIELDS", "PLUGINS", "Document", "read_vcjob", "vcjob_of"]
