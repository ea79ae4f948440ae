"""Who asks and what they may: bearer tokens with rights, as RBAC would grant them."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from simulator.kubernetes.errors import Json
from simulator.kubernetes.resources import Resource

ANONYMOUS = "system:anonymous"
ALL = "*"


@dataclass(frozen=True)
class Right:
    """One rule: API group, resource (with its subresource), verb; "*" is any of them.

    A namespace is the namespace of a Role; "*" is a ClusterRole, and cluster-wide objects and
    lists over all namespaces need that.
    """

    group: str
    resource: str
    verb: str
    namespace: str = ALL


@dataclass(frozen=True)
class Person:
    """A token's owner and rights; a token is good until `expires_ms` (0: for ever)."""

    user: str
    rights: tuple[Right, ...] = ()
    expires_ms: int = 0


@dataclass(frozen=True)
class Question:
    """May this be done? `resource` holds its subresource: `pods/log`."""

    group: str
    resource: str
    verb: str
    namespace: str = ""


EVERYTHING = Right(ALL, ALL, ALL)
NOBODY = Person(ANONYMOUS)


@dataclass
class Gate:
    """The tokens that are known, by their text."""

    people: dict[str, Person] = field(default_factory=dict)

    def who(self, authorization: str, now_ms: int) -> Person | None:
        """The token's owner, NOBODY without a token, None for a token that is no good."""
        if not authorization:
            return NOBODY
        scheme, _, token = authorization.partition(" ")
        person = self.people.get(token.strip()) if scheme.lower() == "bearer" else None
        if person is not None and person.expires_ms and person.expires_ms <= now_ms:
            return None
        return person


def may(rights: Iterable[Right], asked: Question) -> bool:
    """Does any rule allow it?"""
    return any(_allows(right, asked) for right in rights)


def _allows(right: Right, asked: Question) -> bool:
    return (
        right.group in {ALL, asked.group}
        and right.resource in {ALL, asked.resource}
        and right.verb in {ALL, asked.verb}
        and (right.namespace == ALL or (right.namespace == asked.namespace != ""))
    )


def question(resource: Resource, subresource: str, verb: str, namespace: str) -> Question:
    """The question that a call asks."""
    plural = f"{resource.plural}/{subresource}" if subresource else resource.plural
    return Question(resource.group, plural, verb, namespace)


def review(person: Person, body: Json) -> Json:
    """The answer to a SelfSubjectAccessReview."""
    wanted = body.get("spec", {}).get("resourceAttributes", {})
    plural = wanted.get("resource", "")
    if wanted.get("subresource"):
        plural = f"{plural}/{wanted['subresource']}"
    asked = Question(
        wanted.get("group", ""), plural, wanted.get("verb", ""), wanted.get("namespace", "")
    )
    status: Json = {"allowed": may(person.rights, asked)}
    if status["allowed"]:
        status["reason"] = f'RBAC: allowed by RoleBinding to "{person.user}"'
    return {
        "kind": "SelfSubjectAccessReview",
        "apiVersion": "authorization.k8s.io/v1",
        "metadata": {},
        "spec": body.get("spec", {}),
        "status": status,
    }
