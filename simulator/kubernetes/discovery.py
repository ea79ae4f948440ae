"""What is free for everybody with a token: version, health, and which APIs there are."""

from simulator.kubernetes.errors import Json
from simulator.kubernetes.resources import TABLE

VERSION: Json = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.1",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "2026-05-12T09:00:00Z",
    "goVersion": "go1.26.8",
    "compiler": "gc",
    "platform": "linux/amd64",
}

_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]


def discover(path: str) -> Json | None:
    """The answer to a path of discovery, None if it is no such path."""
    if path == "/version":
        return VERSION
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
    if path == "/apis":
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": _groups()}
    match path.strip("/").split("/"):
        case ["api", version]:
            return _resources("", version)
        case ["apis", group, version]:
            return _resources(group, version)
        case ["apis", group]:
            return next((_group(g, v) for g, v in _versions() if g == group), None)
    return None


def _versions() -> list[tuple[str, str]]:
    return sorted({(r.group, r.version) for r in TABLE if r.group})


def _groups() -> list[Json]:
    return [_group(group, version) for group, version in _versions()]


def _group(group: str, version: str) -> Json:
    this = {"groupVersion": f"{group}/{version}", "version": version}
    return {"name": group, "versions": [this], "preferredVersion": this}


def _resources(group: str, version: str) -> Json | None:
    found = [r for r in TABLE if (r.group, r.version) == (group, version)]
    if not found:
        return None
    rows: list[Json] = []
    for resource in found:
        row: Json = {
            "name": resource.plural,
            "singularName": resource.kind.lower(),
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": _VERBS,
        }
        rows.append(row)
        if resource.status:
            status = {**row, "name": f"{resource.plural}/status"}
            rows.append({**status, "verbs": ["get", "patch", "update"]})
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": found[0].api_version,
        "resources": rows,
    }
