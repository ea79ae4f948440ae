"""Every field of a Volcano Job, its tasks and its pods: the one table, also of the reference page."""

from collections.abc import Mapping
from itertools import chain
from typing import Final

from federation.intake.vcjob.container_fields import CONTAINER_FIELDS
from federation.intake.vcjob.field import Field
from federation.intake.vcjob.job_fields import JOB_FIELDS
from federation.intake.vcjob.pod_fields import POD_FIELDS

FIELDS: Final[Mapping[str, Field]] = {
    field.path: field for field in chain(JOB_FIELDS, POD_FIELDS, CONTAINER_FIELDS)
}


def _by_parent() -> dict[str, dict[str, Field]]:
    children: dict[str, dict[str, Field]] = {}
    for field in FIELDS.values():
        children.setdefault(field.parent, {})[field.name] = field
    return children


# The fields of each object, by the object's path; "" = the document.
CHILDREN: Final[Mapping[str, Mapping[str, Field]]] = _by_parent()
