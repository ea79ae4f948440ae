"""The rights that a member cluster gives to Muster: these and no others, each with its reason."""

from pathlib import Path
from typing import Any

import pytest
import yaml

DIRECTORY = Path("deploy/member/volcano")
MANIFESTS = sorted(DIRECTORY.glob("*.yaml"))
OPTIONAL = {"tenant-logs", "tenant-eviction", "queues"}

# As observed on a running Volcano: with less a call of a broker is refused.
EVERYWHERE = {
    ("", "nodes"): {"list", "watch"},
    ("", "pods"): {"list", "watch"},
    ("scheduling.volcano.sh", "queues"): {"list", "watch"},
    ("topology.volcano.sh", "hypernodes"): {"list", "watch"},
    ("scheduling.k8s.io", "priorityclasses"): {"list"},
}
IN_NAMESPACES = {
    ("batch.volcano.sh", "jobs"): {"create", "get", "list", "watch", "patch", "delete"},
    ("bus.volcano.sh", "commands"): {"create"},
    ("scheduling.volcano.sh", "podgroups"): {"list", "watch"},
    ("", "pods"): {"list", "watch", "patch", "delete"},
    ("", "events"): {"list", "watch"},
}
EVERYWHERE_IF_WANTED = {("scheduling.volcano.sh", "queues"): {"patch"}}
IF_WANTED = {("", "pods/log"): {"get"}, ("", "pods/eviction"): {"create"}}


def documents(path: Path) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def of_kind(kind: str, paths: list[Path]) -> list[dict[str, Any]]:
    return [one for path in paths for one in documents(path) if one["kind"] == kind]


def rights(roles: list[dict[str, Any]]) -> dict[tuple[str, str], set[str]]:
    """(API group, resource) -> verbs; a rule says one thing about one resource."""
    found = {}
    for role in roles:
        for rule in role["rules"]:
            assert set(rule) == {"apiGroups", "resources", "verbs"}, rule
            (group,), (resource,) = rule["apiGroups"], rule["resources"]
            assert (group, resource) not in found
            found[group, resource] = set(rule["verbs"])
    return found


def test_the_rights_are_the_least_set() -> None:
    plain = [path for path in MANIFESTS if path.stem not in OPTIONAL]
    wanted = [path for path in MANIFESTS if path.stem in OPTIONAL]
    assert rights(of_kind("ClusterRole", plain)) == EVERYWHERE
    assert rights(of_kind("ClusterRole", wanted)) == EVERYWHERE_IF_WANTED
    assert rights(of_kind("Role", plain)) == IN_NAMESPACES
    assert rights(of_kind("Role", wanted)) == IF_WANTED


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_nothing_else_is_made(path: Path) -> None:
    kinds = {document["kind"] for document in documents(path)}
    cluster = {"Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding"}
    queues = {"ClusterRole", "ClusterRoleBinding"}
    assert kinds == {"cluster": cluster, "queues": queues}.get(path.stem, {"Role", "RoleBinding"})


def test_each_role_is_given_to_the_one_account() -> None:
    (account,) = of_kind("ServiceAccount", MANIFESTS)
    assert account["automountServiceAccountToken"] is False
    subject = {"kind": "ServiceAccount", **account["metadata"]}
    for kind in ("ClusterRole", "Role"):
        roles = {role["metadata"]["name"] for role in of_kind(kind, MANIFESTS)}
        bound = {
            binding["roleRef"]["name"]
            for binding in of_kind(f"{kind}Binding", MANIFESTS)
            if binding["roleRef"]["kind"] == kind and binding["subjects"] == [subject]
        }
        assert roles == bound


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_each_rule_says_why(path: Path) -> None:
    lines = path.read_text().splitlines()
    for number, line in enumerate(lines):
        if line.strip().startswith("- apiGroups:"):
            assert lines[number - 1].strip().startswith("# ")


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_namespaces_of_tenants_are_the_admins_choice(path: Path) -> None:
    for document in documents(path):
        if document["kind"] in ("Role", "RoleBinding"):
            assert "namespace" not in document["metadata"]


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_the_page_names_every_file(path: Path) -> None:
    assert path.name in Path("docs/how-to/add-a-volcano-cluster.md").read_text()
