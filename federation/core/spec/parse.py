"""`parse_spec`: a job's body to a `JobSpec`, or everything that is wrong with it at once."""

from collections.abc import Mapping
from math import lcm
from typing import Any, Final

from federation.core.spec.container import build
from federation.core.spec.kinds import MOST_PROBLEMS, Problems, did_you_mean, tell, token
from federation.core.spec.table import JOB, TIERS
from federation.core.spec.values import (
    Checkpoint,
    FlavorChoice,
    GangAsk,
    JobSpec,
    Parallelism,
    Run,
)
from kit.errors import FieldProblem

CHANGEABLE: Final = ("time_limit", "priority", "class", "flavors", "labels")
_SIZES = ("nodes", "gpus_per_node", "cpus_per_gpu", "memory_per_node")
_FACTORS = ("tp", "pp", "dp", "cp", "ep")


def parse_spec(body: object, at: str = "") -> JobSpec | tuple[FieldProblem, ...]:
    """The job of a body as `json.loads` gives it, or every problem, each with its JSON pointer.

    `at` is the pointer of the body itself (`/jobs/3` in a batch). Never raises, whatever the body;
    at most 100 problems are told.
    """
    problems: Problems = []
    values = JOB.read(body, at, problems)
    if isinstance(values, dict) and len(problems) < MOST_PROBLEMS:
        spec = _build(values, at, problems)
        if spec is not None and not problems:
            return spec
    return tuple(problems)


def change_spec(spec: JobSpec, body: object) -> JobSpec | tuple[FieldProblem, ...]:
    """The job after a PATCH of the fields in CHANGEABLE, or everything wrong with the body."""
    problems: Problems = []
    if not isinstance(body, dict):
        tell(problems, "", "wrong_type", "Give an object.")
        return tuple(problems)
    for name, value in body.items():
        here = f"/{token(name)}"
        if name in CHANGEABLE:
            if value is None:
                tell(problems, here, "wrong_type", "null is no value here; leave the field out.")
        elif name in JOB.fields:
            detail = f"It cannot be changed; only {', '.join(CHANGEABLE)} can."
            tell(problems, here, "not_changeable", detail)
        else:
            hint = did_you_mean(name, CHANGEABLE) if len(problems) < 20 else ""
            tell(problems, here, "unknown_field", f"No such field.{hint}")
    merged = {**spec.to_json(), **{name: body[name] for name in CHANGEABLE if name in body}}
    del merged["v"]
    parsed = parse_spec(merged)
    if isinstance(parsed, tuple):
        problems.extend(parsed)
        return tuple(problems)
    return tuple(problems) or parsed


def _build(values: dict[str, Any], at: str, problems: Problems) -> JobSpec | None:
    """The spec of values that were read, after the rules between fields; None if it cannot be."""
    _check_topology(values, f"{at}/topology", problems)
    gang = _gang(values.get("gang"), None, f"{at}/gang", problems)
    split = values.get("parallelism")
    base = None if gang is None else FlavorChoice("", gang, _split(split))
    flavors = _flavors(values.get("flavors") or (), base, at, problems)
    _check_checkpoint(values, at, problems)
    _check_tasks(values.get("run"), flavors, f"{at}/run/tasks_per_node", problems)
    run = None if problems else _run(values["run"], f"{at}/run", problems)
    if base is None or run is None:
        return None
    topology = values["topology"] or {"required": "", "preferred": ""}
    clusters = values["clusters"] or {"only": (), "avoid": ()}
    saved = values["checkpoint"]
    return JobSpec(
        tenant=values["tenant"],
        gang=base.gang,
        flavors=flavors,
        time_limit_ms=values["time_limit"],
        run=run,
        name=values["name"],
        service_class=values["class"],
        priority=values["priority"],
        prefer=values["prefer"],
        exclusive=values["gang"]["exclusive"],
        start_timeout_ms=values["gang"]["start_timeout"],
        max_restarts=values["gang"]["max_restarts"],
        required_tier=topology["required"],
        preferred_tier=topology["preferred"],
        parallelism=base.parallelism,
        checkpoint=_checkpoint(saved) if saved else None,
        environment=values["environment"],
        requires=values["requires"],
        labels=values["labels"],
        only_clusters=clusters["only"],
        avoid_clusters=clusters["avoid"],
        not_before_ms=values["not_before"],
    )


def _gang(
    sizes: Mapping[str, Any] | None, base: GangAsk | None, at: str, problems: Problems
) -> GangAsk | None:
    """The gang of the sizes given, the rest from `base`; None when a size is missing or wrong."""
    if not isinstance(sizes, Mapping) or not all(name in sizes for name in _SIZES):
        return None
    nodes = sizes["nodes"] or (base.nodes if base else 0)
    _check_min_nodes(sizes.get("min_nodes"), nodes, f"{at}/min_nodes", problems)
    if base is None:
        return GangAsk(
            nodes, sizes["gpus_per_node"], sizes["cpus_per_gpu"] or 1, sizes["memory_per_node"]
        )
    return GangAsk(
        nodes,
        sizes["gpus_per_node"] or base.gpus_per_node,
        sizes["cpus_per_gpu"] or base.cpus_per_gpu,
        sizes["memory_per_node"] or base.memory_mib_per_node,
    )


def _check_min_nodes(least: int | None, nodes: int, at: str, problems: Problems) -> None:
    """A gang of fixed size only: elastic jobs come later."""
    if least is None or least == nodes:
        return
    if least > nodes:
        tell(problems, at, "out_of_range", f"Give at most nodes, which is {nodes}.")
    else:
        detail = f"Elastic jobs are not supported yet. Leave min_nodes out, or give {nodes}."
        tell(problems, at, "not_supported", detail)


def _split(values: Mapping[str, Any] | None) -> Parallelism | None:
    """The parallelism of values that were read; None when there is none or it is wrong."""
    if values is None or not all(name in values for name in _FACTORS):
        return None
    more = {
        name: value
        for name, value in values.items()
        if name not in _FACTORS and name != "model" and value is not None
    }
    if values.get("model"):
        more["model"] = {name: v for name, v in values["model"].items() if v is not None}
    return Parallelism(**{name: values[name] for name in _FACTORS}, more=more)


def _flavors(
    items: tuple[dict[str, Any], ...], base: FlavorChoice | None, at: str, problems: Problems
) -> tuple[FlavorChoice, ...]:
    """The choices, each whole; flavors named twice and parallelism that does not fit are told."""
    if base is None:
        return ()
    choices: list[FlavorChoice] = []
    if any(not item["gang"] for item in items):
        _check_split(base, f"{at}/parallelism", problems)
    for index, item in enumerate(items):
        here = f"{at}/flavors/{index}"
        if any(item["name"] == choice.name for choice in choices):
            tell(problems, here, "duplicate", "This flavor is in the list already.")
        override, own = item["gang"], item["parallelism"]
        gang = _gang(override, base.gang, f"{here}/gang", problems) if override else base.gang
        split = _split(own) if own else base.parallelism
        if gang is not None:
            choices.append(FlavorChoice(item["name"], gang, split))
            if override or own:
                where = f"{here}/parallelism" if own else f"{at}/parallelism"
                _check_split(choices[-1], where, problems)
    return tuple(choices)


def _check_split(choice: FlavorChoice, at: str, problems: Problems) -> None:
    """tp x cp x pp x dp = GPUs, and what Megatron and DeepSpeed would refuse at their start."""
    split = choice.parallelism
    if split is None or any(problem.pointer.startswith(at) for problem in problems):
        return
    code, gpus, more = "parallelism_does_not_fit", choice.gang.gpus, split.more
    if split.gpus != gpus:
        tell(
            problems,
            at,
            code,
            f"tp x cp x pp x dp = {split.gpus}, but {choice.name or 'the gang'} has {gpus} GPUs. "
            "Change the factors, or give the flavor a parallelism of its own.",
        )
    step = split.dp * more.get("micro_batch", 1)
    if more.get("global_batch", step) % step:
        detail = f"global_batch must be a multiple of dp x micro_batch, which is {step}."
        tell(problems, f"{at}/global_batch", code, detail)
    heads = more.get("model", {}).get("heads", split.tp)
    if heads % split.tp:
        tell(problems, f"{at}/tp", code, f"tp must divide the {heads} attention heads.")
    if lcm(split.ep, split.dp * split.cp) != split.dp * split.cp:
        tell(problems, f"{at}/ep", code, f"ep must divide dp x cp, which is {split.dp * split.cp}.")


def _check_topology(values: Mapping[str, Any], at: str, problems: Problems) -> None:
    """A preferred tier wider than the required one means nothing; one host holds one node."""
    topology, gang = values.get("topology"), values.get("gang")
    if not topology:
        return
    required, preferred = topology.get("required"), topology.get("preferred")
    if required and preferred and TIERS.index(preferred) > TIERS.index(required):
        detail = f"Give {required} or a closer tier: {required} is required already."
        tell(problems, f"{at}/preferred", "out_of_range", detail)
    nodes = gang.get("nodes", 1) if isinstance(gang, dict) else 1
    if required == "host" and nodes > 1:
        detail = f"One host cannot hold {nodes} nodes. Give domain, leaf, spine or cluster."
        tell(problems, f"{at}/required", "out_of_range", detail)


def _check_checkpoint(values: Mapping[str, Any], at: str, problems: Problems) -> None:
    """The signal must come before the time limit is over."""
    saved, limit = values.get("checkpoint"), values.get("time_limit")
    if saved and limit and saved.get("grace", 0) >= limit:
        detail = "Give a grace shorter than time_limit."
        tell(problems, f"{at}/checkpoint/grace", "out_of_range", detail)


def _check_tasks(
    run: Mapping[str, Any] | None, flavors: tuple[FlavorChoice, ...], at: str, problems: Problems
) -> None:
    """Each process needs a CPU of its own, on every flavor."""
    cpus = min((c.gang.gpus_per_node * c.gang.cpus_per_gpu for c in flavors), default=None)
    if run and cpus is not None and run.get("tasks_per_node", 1) > cpus:
        detail = f"Give at most {cpus}, the CPUs of a node, or more gang.cpus_per_gpu."
        tell(problems, at, "out_of_range", detail)


def _run(values: Mapping[str, Any], at: str, problems: Problems) -> Run | None:
    """What is run; None when it is nothing, or wrong."""
    names = ("script", "workdir", "output", "error", "tasks_per_node")
    run = Run(**{name: values[name] for name in names}, container=build(values, at, problems))
    if problems:
        return None
    if not run.forms:
        detail = "Give a script for Slurm, an image for Kubernetes, or both."
        tell(problems, f"{at}/script", "required", detail)
        return None
    return run


def _checkpoint(values: Mapping[str, Any]) -> Checkpoint:
    return Checkpoint(values["signal"], values["grace"], values["interval"], values["store"])
