"""Kinds of bad job body: (what it is, the body, the pointer and code it is refused with)."""

from typing import Any

from tests.federation.bodies import deep, small


def _gang(**changes: Any) -> dict[str, Any]:
    return small(gang={"nodes": 4, "gpus_per_node": 8, **changes})


def _run(**changes: Any) -> dict[str, Any]:
    return small(run={"script": "#!/bin/bash\nsrun true", **changes})


def _image(**changes: Any) -> dict[str, Any]:
    return small(run={"image": "trainer:1", **changes})


def _without(name: str) -> dict[str, Any]:
    return {key: value for key, value in small().items() if key != name}


_SPLIT = {"tp": 8, "pp": 2, "dp": 2}

BAD: list[tuple[str, Any, str, str]] = [
    ("a list", [], "", "wrong_type"),
    ("a text", "job", "", "wrong_type"),
    ("a number", 7, "", "wrong_type"),
    ("nothing", {}, "/tenant", "required"),
    ("no tenant", _without("tenant"), "/tenant", "required"),
    ("no flavors", _without("flavors"), "/flavors", "required"),
    ("no gang", _without("gang"), "/gang", "required"),
    ("no time limit", _without("time_limit"), "/time_limit", "required"),
    ("no run", _without("run"), "/run", "required"),
    ("null where needed", small(gang=None), "/gang", "required"),
    ("unknown field", small(queue="x"), "/queue", "unknown_field"),
    ("misspelled field", small(time_limt=1), "/time_limt", "unknown_field"),
    ("unknown field inside", _gang(gpus=8), "/gang/gpus", "unknown_field"),
    ("field with a slash", small(**{"a/b~c": 1}), "/a~1b~0c", "unknown_field"),
    ("field with a surrogate", small(**{"\ud800": 1}), "/\\ud800", "unknown_field"),
    ("number as text", _gang(nodes="4"), "/gang/nodes", "wrong_type"),
    ("truth as number", _gang(nodes=True), "/gang/nodes", "wrong_type"),
    ("fraction", _gang(nodes=4.0), "/gang/nodes", "wrong_type"),
    ("NaN", _gang(nodes=float("nan")), "/gang/nodes", "wrong_type"),
    ("infinity", small(time_limit=float("inf")), "/time_limit", "wrong_type"),
    ("negative", _gang(nodes=-1), "/gang/nodes", "out_of_range"),
    ("zero nodes", _gang(nodes=0), "/gang/nodes", "out_of_range"),
    ("zero GPUs", _gang(gpus_per_node=0), "/gang/gpus_per_node", "out_of_range"),
    ("huge", _gang(nodes=10**400), "/gang/nodes", "out_of_range"),
    ("huge time", small(time_limit=10**30), "/time_limit", "out_of_range"),
    ("no time", small(time_limit=0), "/time_limit", "out_of_range"),
    ("bare number in quotes", small(time_limit="90"), "/time_limit", "invalid_format"),
    ("empty duration", small(time_limit=""), "/time_limit", "invalid_format"),
    ("sixty seconds", small(time_limit="1:00:60"), "/time_limit", "invalid_format"),
    ("memory without unit", _gang(memory_per_node=900), "/gang/memory_per_node", "wrong_type"),
    ("memory in words", _gang(memory_per_node="lots"), "/gang/memory_per_node", "invalid_format"),
    ("no memory", _gang(memory_per_node="0Gi"), "/gang/memory_per_node", "out_of_range"),
    ("text where a truth", _gang(exclusive="yes"), "/gang/exclusive", "wrong_type"),
    ("more tasks than CPUs", _run(tasks_per_node=9), "/run/tasks_per_node", "out_of_range"),
    ("no task", _run(tasks_per_node=0), "/run/tasks_per_node", "out_of_range"),
    ("elastic", _gang(min_nodes=2), "/gang/min_nodes", "not_supported"),
    ("least above most", _gang(min_nodes=5), "/gang/min_nodes", "out_of_range"),
    ("flavors not a list", small(flavors="h100"), "/flavors", "wrong_type"),
    ("no flavor", small(flavors=[]), "/flavors", "wrong_length"),
    ("many flavors", small(flavors=[f"f{n}" for n in range(17)]), "/flavors", "wrong_length"),
    ("flavor twice", small(flavors=["a", {"name": "a"}]), "/flavors/1", "duplicate"),
    ("flavor in capitals", small(flavors=["H100"]), "/flavors/0", "invalid_format"),
    ("flavor without name", small(flavors=[{"gang": {}}]), "/flavors/0/name", "required"),
    ("flavor as number", small(flavors=[100]), "/flavors/0", "wrong_type"),
    ("unknown class", small(**{"class": "gold"}), "/class", "invalid_choice"),
    ("class as list", small(**{"class": ["spot"]}), "/class", "wrong_type"),
    ("unknown priority", small(priority="urgent"), "/priority", "invalid_choice"),
    ("priority above", small(priority=1001), "/priority", "out_of_range"),
    ("priority true", small(priority=True), "/priority", "wrong_type"),
    ("unknown tier", small(topology={"required": "rack"}), "/topology/required", "invalid_choice"),
    (
        "one host for four nodes",
        small(topology={"required": "host"}),
        "/topology/required",
        "out_of_range",
    ),
    (
        "preferred wider than required",
        small(topology={"required": "leaf", "preferred": "spine"}),
        "/topology/preferred",
        "out_of_range",
    ),
    ("tenant with a space", small(tenant="acme vision"), "/tenant", "invalid_format"),
    ("tenant climbing", small(tenant="acme/../other"), "/tenant", "invalid_format"),
    ("name too long", small(name="x" * 201), "/name", "too_long"),
    ("name with a bell", small(name="a\x07b"), "/name", "control_character"),
    ("name with a line", small(name="a\nb"), "/name", "control_character"),
    ("name turned round", small(name="a\u202eb"), "/name", "control_character"),
    ("unpaired surrogate", small(name="\udcff"), "/name", "control_character"),
    ("no script", small(run={}), "/run/script", "required"),
    ("no interpreter", _run(script="srun true"), "/run/script", "invalid_format"),
    ("carriage returns", _run(script="#!/bin/bash\r\nsrun"), "/run/script", "invalid_format"),
    ("nul in script", _run(script="#!/bin/sh\n\0"), "/run/script", "control_character"),
    ("script too long", _run(script="#!" + "x" * (1 << 20)), "/run/script", "too_long"),
    ("image with a blank", _run(image="trainer 1"), "/run/image", "invalid_format"),
    ("image as a list", _run(image=["trainer:1"]), "/run/image", "wrong_type"),
    ("command without image", _run(command=["a"]), "/run/command", "needs_image"),
    ("memory without image", _run(shm="64Gi"), "/run/shm", "needs_image"),
    ("command as text", _image(command="python train.py"), "/run/command", "wrong_type"),
    ("number as argument", _image(args=["--steps", 5]), "/run/args/1", "wrong_type"),
    ("nul in an argument", _image(args=["a\0"]), "/run/args/0", "control_character"),
    ("many arguments", _image(args=["a"] * 1025), "/run/args", "wrong_length"),
    ("volume without mount", _image(volumes=[{"claim": "a"}]), "/run/volumes/0/mount", "required"),
    (
        "claim in capitals",
        _image(volumes=[{"claim": "Data", "mount": "/data"}]),
        "/run/volumes/0/claim",
        "invalid_format",
    ),
    (
        "relative mount",
        _image(volumes=[{"claim": "a", "mount": "data"}]),
        "/run/volumes/0/mount",
        "invalid_format",
    ),
    (
        "mount that goes up",
        _image(volumes=[{"claim": "a", "mount": "/data/../proc"}]),
        "/run/volumes/0/mount",
        "invalid_format",
    ),
    (
        "mount over the system",
        _image(volumes=[{"claim": "a", "mount": "//dev/./shm/"}]),
        "/run/volumes/0/mount",
        "duplicate",
    ),
    (
        "two at one path",
        _image(
            volumes=[{"claim": "a", "mount": "/data"}], secrets=[{"name": "b", "mount": "/data/"}]
        ),
        "/run/secrets/0/mount",
        "duplicate",
    ),
    ("secret without use", _image(secrets=[{"name": "a"}]), "/run/secrets/0", "either_or"),
    (
        "secret twice used",
        _image(secrets=[{"name": "a", "mount": "/a", "env": True}]),
        "/run/secrets/0",
        "either_or",
    ),
    (
        "odd variable of a secret",
        _image(secrets=[{"name": "a", "env": "A-B"}]),
        "/run/secrets/0/env",
        "invalid_format",
    ),
    (
        "GPUs as network devices",
        _image(rdma={"nvidia.com/gpu": 8}),
        "/run/rdma/nvidia.com~1gpu",
        "not_a_network_device",
    ),
    (
        "a slice of a GPU",
        _image(rdma={"nvidia.com/mig-1g.10gb": 1}),
        "/run/rdma/nvidia.com~1mig-1g.10gb",
        "not_a_network_device",
    ),
    ("memory as a device", _image(rdma={"memory": 8}), "/run/rdma/memory", "invalid_format"),
    ("no device", _image(rdma={"rdma/hca": 0}), "/run/rdma/rdma~1hca", "out_of_range"),
    ("devices as text", _image(rdma={"rdma/hca": "8"}), "/run/rdma/rdma~1hca", "wrong_type"),
    ("shm without unit", _image(shm="64"), "/run/shm", "invalid_format"),
    ("runtime class", _image(runtime_class="a/b"), "/run/runtime_class", "invalid_format"),
    ("relative workdir", _run(workdir="run7"), "/run/workdir", "invalid_format"),
    ("lines in a path", _run(output="a\nb"), "/run/output", "control_character"),
    ("own variable", small(environment={"MUSTER_TP": "8"}), "/environment/MUSTER_TP", "reserved"),
    ("odd variable", small(environment={"A=B": "x"}), "/environment/A=B", "invalid_format"),
    ("number as variable", small(environment={"A": 1}), "/environment/A", "wrong_type"),
    ("nul in a variable", small(environment={"A": "\0"}), "/environment/A", "control_character"),
    ("odd label", small(labels={"": "x"}), "/labels/", "invalid_format"),
    (
        "many labels",
        small(labels={f"l{n}": "" for n in range(65)}),
        "/labels",
        "wrong_length",
    ),
    ("store with a space", small(requires=["a b"]), "/requires/0", "invalid_format"),
    ("store twice", small(requires=["a", "a"]), "/requires/1", "duplicate"),
    (
        "grace beyond the limit",
        small(time_limit=60, checkpoint={"grace": 60}),
        "/checkpoint/grace",
        "out_of_range",
    ),
    (
        "unknown signal",
        small(checkpoint={"signal": "KILL"}),
        "/checkpoint/signal",
        "invalid_choice",
    ),
    (
        "factors do not multiply",
        small(parallelism={"tp": 8, "pp": 2, "dp": 1}),
        "/parallelism",
        "parallelism_does_not_fit",
    ),
    (
        "factors fit one flavor only",
        small(parallelism=_SPLIT, flavors=["a", {"name": "b", "gang": {"nodes": 8}}]),
        "/parallelism",
        "parallelism_does_not_fit",
    ),
    (
        "heads do not divide",
        small(parallelism={**_SPLIT, "model": {"heads": 12}}),
        "/parallelism/tp",
        "parallelism_does_not_fit",
    ),
    (
        "batch does not divide",
        small(parallelism={**_SPLIT, "global_batch": 9, "micro_batch": 2}),
        "/parallelism/global_batch",
        "parallelism_does_not_fit",
    ),
    (
        "experts do not divide",
        small(parallelism={**_SPLIT, "ep": 3}),
        "/parallelism/ep",
        "parallelism_does_not_fit",
    ),
    (
        "moment without zone",
        small(not_before="2027-01-01T00:00:00"),
        "/not_before",
        "invalid_format",
    ),
    ("no such day", small(not_before="2027-02-30T00:00:00Z"), "/not_before", "invalid_format"),
    ("deadline", small(deadline="2027-01-01T00:00:00Z"), "/deadline", "not_supported"),
    ("dependencies", small(depends_on=["x"]), "/depends_on", "not_supported"),
    ("array", small(array={"size": 4}), "/array", "not_supported"),
    ("deep", small(labels=deep(50)), "/labels", "wrong_type"),
    ("deep inside", small(labels={"a": deep(50)}), "/labels/a", "wrong_type"),
]
