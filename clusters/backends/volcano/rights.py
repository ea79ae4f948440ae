"""Rights on a Kubernetes cluster: which one a call needs, and what the server says of it.

Whether a 403 means that a right of ours is missing is asked of the server, never read from words: a
quota, a policy or a namespace that goes answers with the same code.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_VERBS = {"POST": "create", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True, slots=True)
class Right:
    """A verb on a resource (`pods/log`), in each namespace of ours or in the whole cluster."""

    group: str
    resource: str
    verb: str
    in_namespace: bool = True


def right_of(method: str, path: str) -> tuple[Right, str] | None:
    """What a call needs, and in which namespace ("" = everywhere); None where it needs nothing.

    `path` is as `client.path_of` makes it, perhaps with a part of the object behind its name.
    """
    head, *rest = path.strip("/").split("/")
    group = rest[0] if head == "apis" and rest else ""
    rest = rest[2:] if head == "apis" else rest[1:]
    space = ""
    if len(rest) > 2 and rest[0] == "namespaces":
        space, rest = rest[1], rest[2:]
    if head not in ("api", "apis") or not rest:
        return None
    kind, name, part = (*rest, "", "")[:3]
    verb = _VERBS.get(method, "get" if name else "list")
    return Right(group, f"{kind}/{part}" if part else kind, verb, bool(space)), space


def review(right: Right, namespace: str) -> dict[str, Any]:
    """The question to the server; any account may ask it of itself."""
    resource, _, part = right.resource.partition("/")
    asked = {"group": right.group, "resource": resource, "subresource": part, "verb": right.verb}
    return {"spec": {"resourceAttributes": {**asked, "namespace": namespace}}}


def is_allowed(answer: Mapping[str, Any]) -> bool:
    """What the server says to it."""
    return bool((answer.get("status") or {}).get("allowed"))
