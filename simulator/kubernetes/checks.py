"""What the API server checks of any object before it asks webhooks: names, labels, namespaces."""

import re
from typing import Any

from simulator.kubernetes import errors
from simulator.kubernetes.calls import Target
from simulator.kubernetes.errors import Json, bad_request
from simulator.kubernetes.objects import is_going, meta_of
from simulator.kubernetes.resources import BY_PLURAL, Resource
from simulator.kubernetes.store import Store

_NAME = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
_MOST_ANNOTATIONS = 262_144
_MOST_LABEL = 63
_MOST_NAME = 253


def fitting(target: Target, body: Any) -> Json:
    """The object in a body, for this path; 400 if it is another kind or in another namespace."""
    resource = target.resource
    if not isinstance(body, dict) or not isinstance(body.get("metadata", {}), dict):
        raise bad_request("the object provided is unrecognized (must be of type Object)")
    version, kind = body.get("apiVersion"), body.get("kind")
    if version not in {None, resource.api_version}:
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API version "
            f"({resource.api_version})"
        )
    if kind not in {None, resource.kind}:
        raise bad_request(f"{resource.kind} in version {resource.version!r} cannot be {kind}")
    meta = dict(meta_of(body))
    if resource.namespaced and meta.setdefault("namespace", target.namespace) != target.namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    head = {"apiVersion": resource.api_version, "kind": resource.kind}
    return {**body, **head, "metadata": meta}


def open_namespace(store: Store, target: Target, name: str) -> None:
    """Something new may be made there: 404 without the namespace, 403 while it is going."""
    if not target.resource.namespaced:
        return
    namespace = store.find(BY_PLURAL["namespaces"], "", target.namespace)
    if namespace is None:
        raise errors.not_found(BY_PLURAL["namespaces"], target.namespace)
    if is_going(namespace):
        raise errors.terminating(target.resource, name, target.namespace)


def check_metadata(resource: Resource, thing: Json) -> None:
    """Names, labels and annotations are possible; 422 else."""
    meta = thing["metadata"]
    name = meta.get("name") or ""
    problems = [*_of_name(meta), *_of_labels(meta.get("labels") or {})]
    size = sum(len(k) + len(str(v)) for k, v in (meta.get("annotations") or {}).items())
    if size > _MOST_ANNOTATIONS:
        problems.append(
            f"metadata.annotations: Too long: may not be more than {_MOST_ANNOTATIONS} bytes"
        )
    if problems:
        raise errors.invalid(resource, name, problems)


def _of_name(meta: Json) -> list[str]:
    name = meta.get("name") or meta.get("generateName", "").rstrip("-")
    if not name:
        return ["metadata.name: Required value: name or generateName is required"]
    if not _NAME.match(name) or len(name) > _MOST_NAME:
        return [
            f'metadata.name: Invalid value: "{name}": a lowercase RFC 1123 subdomain must consist '
            "of lower case alphanumeric characters, '-' or '.', and must start and end with an "
            "alphanumeric character (e.g. 'example.com', regex used for validation is "
            "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
        ]
    return []


def _of_labels(labels: Json) -> list[str]:
    return [
        f'metadata.labels: Invalid value: "{value}": must be no more than {_MOST_LABEL} bytes'
        for value in labels.values()
        if len(str(value)) > _MOST_LABEL
    ]
