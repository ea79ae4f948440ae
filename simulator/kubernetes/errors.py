"""Refusals as `Status` objects, in the words recorded from kube-apiserver 1.36.1."""

from typing import Any

from simulator.kubernetes.resources import Resource

Json = dict[str, Any]

EXPIRED_CONTINUE = (
    "The provided continue parameter is too old to display a consistent list result. You can start "
    "a new list without the continue parameter, or use the continue token in this response to "
    "retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)


class ApiError(Exception):
    """The answer to a call is a `Status` of failure."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Json | None = None,
        metadata: Json | None = None,
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after_s = retry_after_s
        self.body = status(code, reason, message, details=details, metadata=metadata)


def status(
    code: int,
    reason: str,
    message: str,
    *,
    details: Json | None = None,
    metadata: Json | None = None,
) -> Json:
    """A `Status` of failure; a reason that is empty is left out, as on the wire."""
    body: Json = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": metadata or {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "details": details,
        "code": code,
    }
    return {key: value for key, value in body.items() if value not in ("", None)}


def success(details: Json | None = None, *, code: int | None = None) -> Json:
    """A `Status` of success."""
    body: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details is not None:
        body["details"] = details
    if code is not None:
        body["code"] = code
    return body


def details_of(resource: Resource, name: str) -> Json:
    """What an object's Status says of it: name, group, and the plural under `kind`."""
    found = {"name": name, "group": resource.group, "kind": resource.plural}
    return {key: value for key, value in found.items() if value}


def not_found(resource: Resource, name: str) -> ApiError:
    """404: no such object."""
    return ApiError(
        404,
        "NotFound",
        f'{resource.qualified} "{name}" not found',
        details=details_of(resource, name),
    )


def no_such_path() -> ApiError:
    """404: no such resource."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", details={})


def already_exists(resource: Resource, name: str, *, going: bool) -> ApiError:
    """409: the name is in use, maybe by an object that is being deleted."""
    message = f'{resource.qualified} "{name}" already exists'
    return ApiError(
        409,
        "AlreadyExists",
        f"object is being deleted: {message}" if going else message,
        details=details_of(resource, name),
    )


def conflict(resource: Resource, name: str, why: str = "") -> ApiError:
    """409: the object is another than the caller thinks."""
    why = why or (
        "the object has been modified; please apply your changes to the latest version and try "
        "again"
    )
    return ApiError(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {resource.qualified} "{name}": {why}',
        details=details_of(resource, name),
    )


def wrong_uid(resource: Resource, name: str, asked: str, uid: str) -> ApiError:
    """409: `preconditions.uid` names another object."""
    message = (
        f'Operation cannot be fulfilled on {resource.qualified_kind} "{name}": the UID in the '
        f"precondition ({asked}) does not match the UID in record ({uid}). The object might have "
        "been deleted and then recreated"
    )
    return ApiError(409, "Conflict", message, details=details_of(resource, name))


def invalid(resource: Resource, name: str, problems: list[str]) -> ApiError:
    """422: fields that cannot be; each problem is `path: kind: text`."""
    told = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
    causes = [
        {"reason": "FieldValueInvalid", "message": text, "field": text.partition(": ")[0]}
        for text in problems
    ]
    kind = {"name": name, "group": resource.group, "kind": resource.kind, "causes": causes}
    return ApiError(
        422,
        "Invalid",
        f'{resource.qualified_kind} "{name}" is invalid: {told}',
        details={key: value for key, value in kind.items() if value},
    )


def bad_request(message: str) -> ApiError:
    """400: the request cannot be read."""
    return ApiError(400, "BadRequest", message)


def denied(webhook: str, message: str) -> ApiError:
    """400 without a reason: an admission webhook said no."""
    return ApiError(400, "", f'admission webhook "{webhook}" denied the request: {message}')


def forbidden(
    user: str, verb: str, resource: Resource, subresource: str, namespace: str, name: str
) -> ApiError:
    """403: the user has no right to it."""
    plural = f"{resource.plural}/{subresource}" if subresource else resource.plural
    where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    subject = f'{resource.qualified} "{name}"' if name else resource.qualified
    message = (
        f'{subject} is forbidden: User "{user}" cannot {verb} resource "{plural}" in API group '
        f'"{resource.group}" {where}'
    )
    return ApiError(403, "Forbidden", message, details=details_of(resource, name))


def unauthorized() -> ApiError:
    """401: a token nobody knows."""
    return ApiError(401, "Unauthorized", "Unauthorized")


def terminating(resource: Resource, name: str, namespace: str) -> ApiError:
    """403: nothing new in a namespace that is going."""
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {namespace} is being terminated",
        "field": "metadata.namespace",
    }
    message = (
        f'{resource.qualified} "{name}" is forbidden: unable to create new content in namespace '
        f"{namespace} because it is being terminated"
    )
    return ApiError(
        403, "Forbidden", message, details={**details_of(resource, name), "causes": [cause]}
    )


def too_old(asked: int, oldest: int) -> ApiError:
    """410: a watch from a version that is no longer known."""
    return ApiError(410, "Expired", f"too old resource version: {asked} ({oldest})")


def expired_list(token: str) -> ApiError:
    """410: a continue token that is too old, with one to go on inconsistently."""
    return ApiError(410, "Expired", EXPIRED_CONTINUE, metadata={"continue": token})


def too_large(asked: int, current: int) -> ApiError:
    """504: a list from a version that is not there yet."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return ApiError(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {asked}, current: {current}",
        details={"causes": [cause], "retryAfterSeconds": 1},
        retry_after_s=1,
    )
