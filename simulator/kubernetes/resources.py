"""What can be asked for: one row for each resource."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Resource:
    """A resource by group, version and plural. `built_in`: served by the API server itself.

    The items of a list of built-in objects name neither kind nor version, those of custom objects
    do. `status` says that a status subresource exists: the main resource then ignores `status`.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    built_in: bool = True
    status: bool = False

    @property
    def api_version(self) -> str:
        """As objects name it: `v1`, `batch.volcano.sh/v1alpha1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """As messages name it: `pods`, `jobs.batch.volcano.sh`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def qualified_kind(self) -> str:
        """As messages name the kind: `Pod`, `Job.batch.volcano.sh`."""
        return f"{self.kind}.{self.group}" if self.group else self.kind


def _custom(group: str, version: str, plural: str, kind: str, **more: bool) -> Resource:
    return Resource(group, version, plural, kind, built_in=False, **more)


TABLE = (
    Resource("", "v1", "namespaces", "Namespace", namespaced=False, status=True),
    Resource("", "v1", "nodes", "Node", namespaced=False, status=True),
    Resource("", "v1", "pods", "Pod", status=True),
    Resource("", "v1", "events", "Event"),
    Resource("", "v1", "configmaps", "ConfigMap"),
    Resource("", "v1", "services", "Service", status=True),
    Resource("", "v1", "serviceaccounts", "ServiceAccount"),
    Resource("", "v1", "resourcequotas", "ResourceQuota", status=True),
    Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", status=True),
    Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"),
    Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False),
    _custom("batch.volcano.sh", "v1alpha1", "jobs", "Job", status=True),
    _custom("bus.volcano.sh", "v1alpha1", "commands", "Command"),
    _custom("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup", status=True),
    _custom("scheduling.volcano.sh", "v1beta1", "queues", "Queue", namespaced=False, status=True),
    _custom(
        "topology.volcano.sh", "v1alpha1", "hypernodes", "HyperNode", namespaced=False, status=True
    ),
)

# No plural occurs in two groups here, so that it names the resource.
BY_PLURAL = {resource.plural: resource for resource in TABLE}


def find(group: str, version: str, plural: str) -> Resource | None:
    """The resource of a path, None if there is none."""
    resource = BY_PLURAL.get(plural)
    if resource is None or (resource.group, resource.version) != (group, version):
        return None
    return resource
