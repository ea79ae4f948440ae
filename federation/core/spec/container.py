"""What a job runs where clusters start containers: the fields of `run` beside its script.

Bounds are those of Kubernetes. What would take more of a cluster than the gang asked for is refused
here: a GPU named as a network device would be used without a quota, and without a bill.
"""

import re
from collections.abc import Mapping
from posixpath import normpath
from typing import Any, Final

from clusters.core.container import Container, Secret, Volume
from federation.core.spec.kinds import Problems, tell, token
from federation.core.spec.objects import Field, Items, Object, Pairs
from federation.core.spec.quantities import read_memory_mib, write_memory
from federation.core.spec.scalars import Flag, Integer, Memory, Text, TrueOr

_OBJECT = r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?"
_NAMED = Text(253, re.compile(_OBJECT), "Use 1 to 253 of a-z, 0-9, . and -, as kubectl shows it.")
_NETWORK = Text(
    507, re.compile(rf"({_OBJECT}/)?{_OBJECT}"), "Give a name, or a namespace/name, as Multus does."
)
_IMAGE = Text(
    1023,
    re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]*"),
    "Give an image as in registry.example/team/trainer:24.11, without blanks.",
)
_ARGUMENT = Text(1 << 17, has_lines=True)
_MOUNT = Text(1023, re.compile(r"/[^:]+"), "Give an absolute path without a colon, as in /data.")
_RESOURCE = Text(
    316,
    re.compile(
        r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
    ),
    "Give a resource of network devices, as in rdma/hca.",
)
_VARIABLE = Text(255, re.compile(r"[A-Za-z_][A-Za-z0-9_]*"), "Use letters, digits and _.")
_ACCELERATOR = re.compile(r"gpu|mig-|npu|ascend|gaudi|i915|/xe|tpu|accelerator", re.IGNORECASE)
_KEPT_PATHS = ("/", "/dev", "/dev/shm", "/proc", "/sys", "/etc/muster", "/etc/volcano")  # noqa: S108
_OF_IMAGES = "Only for clusters that start containers."

FIELDS: Final = {
    "image": Field(_IMAGE, "The container image, for Kubernetes.", ""),
    "command": Field(
        Items(_ARGUMENT, most=256, may_repeat=True), "Run instead of the image's own.", ()
    ),
    "args": Field(Items(_ARGUMENT, most=1024, may_repeat=True), "Arguments of the command.", ()),
    "host_network": Field(Flag(), "The node's own network, as RDMA may need it.", False),
    "rdma": Field(
        Pairs(_RESOURCE, Integer(1, 64), most=8), "Network devices on each node, by resource.", {}
    ),
    "networks": Field(Items(_NETWORK, most=16), "Further networks of each pod (Multus).", ()),
    "volumes": Field(
        Items(
            Object(
                {
                    "claim": Field(_NAMED, "The volume claim in your namespace."),
                    "mount": Field(_MOUNT, "Where it is seen."),
                    "read_only": Field(Flag(), "Not to be written.", False),
                }
            ),
            most=32,
        ),
        "Volumes that are there already.",
        (),
    ),
    "shm": Field(Memory(1, 64 << 20), "Size of /dev/shm; none = the runtime's own, 64Mi.", 0),
    "secrets": Field(
        Items(
            Object(
                {
                    "name": Field(_NAMED, "The secret in your namespace."),
                    "mount": Field(_MOUNT, "Where its files are seen.", ""),
                    "env": Field(
                        TrueOr(_VARIABLE),
                        "true: all its keys are variables; a name: only the key of that name.",
                        False,
                    ),
                }
            ),
            most=32,
        ),
        "Secrets that are there already.",
        (),
    ),
    "service_account": Field(_NAMED, "The pods' service account; none = no token in them.", ""),
    "image_pull_secrets": Field(Items(_NAMED, most=16), "Secrets to pull the image with.", ()),
    "runtime_class": Field(_NAMED, "The pods' runtime class; none = the cluster's own.", ""),
}


def build(run: Mapping[str, Any], at: str, problems: Problems) -> Container | None:
    """The container of the values of `run`; None where no image is named.

    Tells fields that mean nothing without one, and what Kubernetes would refuse: two things at one
    path, a path that is the system's.
    """
    if not run["image"]:
        for name, declared in FIELDS.items():
            if run[name] != declared.default:
                detail = f"{_OF_IMAGES} Give run.image too, or leave it out."
                tell(problems, f"{at}/{name}", "needs_image", detail)
        return None
    for resource in run["rdma"]:
        if _ACCELERATOR.search(resource):
            detail = "This is no network device. GPUs are asked for by gang.gpus_per_node."
            tell(problems, f"{at}/rdma/{token(resource)}", "not_a_network_device", detail)
    for index, one in enumerate(run["secrets"]):
        if bool(one["mount"]) == bool(one["env"]):
            detail = "Give either mount or env."
            tell(problems, f"{at}/secrets/{index}", "either_or", detail)
    _check_mounts(run, at, problems)
    return Container(
        image=run["image"],
        command=run["command"],
        args=run["args"],
        host_network=run["host_network"],
        rdma=run["rdma"],
        networks=run["networks"],
        volumes=tuple(Volume(**one) for one in run["volumes"]),
        shm_mib=run["shm"],
        secrets=tuple(
            Secret(one["name"], one["mount"], "" if one["env"] is True else one["env"] or "")
            for one in run["secrets"]
        ),
        service_account=run["service_account"],
        image_pull_secrets=run["image_pull_secrets"],
        runtime_class=run["runtime_class"],
    )


def _check_mounts(run: Mapping[str, Any], at: str, problems: Problems) -> None:
    """Each path once, none of them the system's, none that goes up."""
    taken = set(_KEPT_PATHS)
    for field in ("volumes", "secrets"):
        for index, one in enumerate(run[field]):
            mount = one["mount"]
            here = f"{at}/{field}/{index}/mount"
            if not mount:
                continue
            if ".." in mount.split("/"):
                tell(problems, here, "invalid_format", "Give the path without `..` in it.")
            elif (path := normpath(mount).replace("//", "/")) in taken:
                known = path in _KEPT_PATHS
                words = "is the system's" if known else "is taken by another mount"
                tell(problems, here, "duplicate", f"{path} {words}. Give another path.")
            else:
                taken.add(path)


def to_json(container: Container) -> dict[str, Any]:
    """The fields of `run` as in the API, those left out that say nothing."""
    said: dict[str, Any] = {
        "image": container.image,
        "command": list(container.command),
        "args": list(container.args),
        "host_network": container.host_network,
        "rdma": dict(container.rdma),
        "networks": list(container.networks),
        "volumes": [_volume(one) for one in container.volumes],
        "shm": write_memory(container.shm_mib) if container.shm_mib else "",
        "secrets": [_secret(one) for one in container.secrets],
        "service_account": container.service_account,
        "image_pull_secrets": list(container.image_pull_secrets),
        "runtime_class": container.runtime_class,
    }
    return {name: value for name, value in said.items() if value}


def from_json(stored: Mapping[str, Any]) -> Container | None:
    """The fields of a stored `run` read back."""
    if "image" not in stored:
        return None
    given = {name: stored.get(name, declared.default) for name, declared in FIELDS.items()}
    shm = read_memory_mib(given["shm"]) if given["shm"] else 0
    whole = {
        **given,
        "shm": shm or 0,
        **{name: tuple(given[name]) for name in ("command", "args", "networks")},
        "image_pull_secrets": tuple(given["image_pull_secrets"]),
        "secrets": [{"mount": "", "env": False, **one} for one in given["secrets"]],
    }
    return build(whole, "", [])


def _volume(one: Volume) -> dict[str, Any]:
    return {
        "claim": one.claim,
        "mount": one.mount,
        **({"read_only": True} if one.read_only else {}),
    }


def _secret(one: Secret) -> dict[str, Any]:
    return {
        "name": one.name,
        **({"mount": one.mount} if one.mount else {"env": one.variable or True}),
    }
