"""The lab cluster of `script/kubernetes-lab` as tests use it: plain HTTPS, and its daemons."""

import json
import os
import signal
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

ROOT = Path(__file__).resolve().parents[3]
SCRIPTS = ROOT / "script" / "kubernetes-lab"
HOW = "set MUSTER_LIVE_KUBERNETES to a LAB directory where script/kubernetes-lab/up.sh made gamma"
APPLY = {"content-type": "application/apply-patch+yaml"}
Json = dict[str, Any]

PATHS = {
    "Namespace": "/api/v1/namespaces",
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "ResourceQuota": "/api/v1/namespaces/{}/resourcequotas",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
    "Node": "/api/v1/nodes",
    "Pod": "/api/v1/namespaces/{}/pods",
    "Event": "/api/v1/namespaces/{}/events",
    "Job": "/apis/batch.volcano.sh/v1alpha1/namespaces/{}/jobs",
    "Command": "/apis/bus.volcano.sh/v1alpha1/namespaces/{}/commands",
    "PodGroup": "/apis/scheduling.volcano.sh/v1beta1/namespaces/{}/podgroups",
    "Queue": "/apis/scheduling.volcano.sh/v1beta1/queues",
    "HyperNode": "/apis/topology.volcano.sh/v1alpha1/hypernodes",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
}


def path_of(kind: str, namespace: str = "") -> str:
    """Where objects of a kind are listed and made."""
    return PATHS[kind].format(namespace)


@dataclass(frozen=True)
class LabCluster:
    """One cluster that `up.sh` brought up; `directory` is `$LAB/clusters/NAME`."""

    directory: Path

    @property
    def endpoint(self) -> str:
        config = yaml.safe_load((self.directory / "admin.kubeconfig").read_text())
        return str(config["clusters"][0]["cluster"]["server"])

    @property
    def admin_token(self) -> str:
        return (self.directory / "token").read_text().strip()

    def client(self, token: str | None) -> httpx.Client:
        """A client with this bearer token, or as nobody."""
        trusted = ssl.create_default_context(cafile=str(self.directory / "ca.crt"))
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        return httpx.Client(
            base_url=self.endpoint, headers=headers, verify=trusted, timeout=30, trust_env=False
        )

    def kill(self, program: str) -> None:
        """End a daemon without warning."""
        pid = int((self.directory / "run" / f"{program}.pid").read_text())
        assert Path(f"/proc/{pid}/cwd").resolve() == self.directory.resolve()
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: not Path(f"/proc/{pid}/cwd").exists(), f"{program} is gone")

    def forget(self, version: str) -> None:
        """Let etcd forget what was before a resourceVersion, as it does by itself after minutes."""
        port = int(self.endpoint.rpartition(":")[2]) + 1
        body = {"revision": version, "physical": True}
        answer = httpx.post(f"http://127.0.0.1:{port}/v3/kv/compaction", json=body, trust_env=False)
        assert answer.status_code == 200, answer.text

    def up(self) -> None:
        """Start whatever of the cluster does not run."""
        log = self.directory / "log" / "up.log"
        with log.open("w") as output:  # a pipe would stay open: the daemons inherit it
            done = subprocess.run(  # noqa: S603 - our own script
                [str(SCRIPTS / "up.sh"), self.directory.name, self.endpoint.rpartition(":")[2]],
                env=os.environ | {"LAB": str(self.directory.parent.parent)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=120,
                check=False,
            )
        assert done.returncode == 0, log.read_text()


def apply(client: httpx.Client, manifest: Json, namespace: str = "") -> Json:
    """Server-side apply, as `kubectl apply -n NAMESPACE` with one document."""
    kind, name = manifest["kind"], manifest["metadata"]["name"]
    within = manifest["metadata"].get("namespace", namespace)
    if kind == "Namespace":  # one of the name that still goes would take ours with it
        eventually(lambda: not _goes(client, name), f"the old namespace {name} is gone")
    answer = client.patch(
        f"{path_of(kind, within)}/{name}",
        params={"fieldManager": "test", "force": "true"},
        content=yaml.safe_dump(manifest),
        headers=APPLY,
    )
    assert answer.status_code in (200, 201), answer.text
    return dict(answer.json())


def _goes(client: httpx.Client, namespace: str) -> bool:
    told = client.get(f"{path_of('Namespace')}/{namespace}").json()
    return "deletionTimestamp" in told.get("metadata", {})


def make(client: httpx.Client, manifest: Json, namespace: str = "") -> Json:
    """Create an object that must be accepted."""
    answer = client.post(path_of(manifest["kind"], namespace), json=manifest)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


@contextmanager
def watch(client: httpx.Client, path: str, **parameters: str) -> Iterator[Iterator[Json]]:
    """A watch that the server accepted: its events, until it ends."""
    with client.stream("GET", path, params={"watch": "1", **parameters}) as answer:
        assert answer.status_code == 200, answer.read()
        yield (json.loads(line) for line in answer.iter_lines() if line)


def eventually(holds: Any, what: str, *, within_s: float = 30.0) -> None:
    """Wait until `holds()` is true."""
    until = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < until, f"not within {within_s:g} s: {what}"
        time.sleep(0.05)


def lab_directory() -> Path | None:
    """Where the lab is, or None when nobody said."""
    where = os.environ.get("MUSTER_LIVE_KUBERNETES")
    return Path(where) if where else None
