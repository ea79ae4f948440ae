"""The declaration of a job's body: every field once, for the parser and for the published schema.

Bounds are generous to real jobs and keep absurd ones out of the arithmetic.
"""

import re
from typing import Final

from federation.core.spec import container
from federation.core.spec.kinds import Kind
from federation.core.spec.objects import Field, Items, NameOr, Object, Pairs
from federation.core.spec.scalars import (
    Choice,
    Duration,
    Flag,
    Integer,
    Later,
    Memory,
    Moment,
    NamedInteger,
    Text,
)

PRIORITIES: Final = {"low": 100, "normal": 500, "high": 700, "critical": 900}
TIERS: Final = ("host", "domain", "leaf", "spine", "cluster")
CLASSES: Final = ("guaranteed", "spot", "auto")
YEAR_S: Final = 365 * 86_400
DAY_S: Final = 86_400

_LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_NAME = Text(63, re.compile(_LABEL), "Use 1 to 63 of a-z, 0-9 and -, not - at either end.")
_TENANT = Text(
    1023,
    re.compile(rf"{_LABEL}(/{_LABEL})*"),
    "Give the tenant's path, such as acme/vision/pretrain.",
)
_STORE = Text(
    63,
    re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]*"),
    "Use letters, digits and . _ : / -, as clusters list their stores.",
)
_VARIABLE = Text(255, re.compile(r"[A-Za-z_][A-Za-z0-9_]*"), "Use letters, digits and _.")
_LABEL_NAME = Text(
    63,
    re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?"),
    "Use letters, digits and . _ / -, beginning and ending with a letter or digit.",
)
_SCRIPT = Text(
    1 << 20,
    re.compile(r"#![^\r]+", re.DOTALL),
    'Begin with "#!" and the interpreter, as in "#!/bin/bash", and end lines with a line feed.',
    has_lines=True,
)
_WORKDIR = Text(4095, re.compile(r"/.*", re.DOTALL), "Give an absolute path, as in /home/mia/run7.")
_OUTPUT = Text(1023, re.compile(r".+", re.DOTALL), "Give a path.")


def _gang(*, is_override: bool) -> dict[str, Field]:
    """The gang's sizes; in a flavor's override every one may be left to the job's own gang."""
    sizes: dict[str, tuple[Kind, str]] = {
        "nodes": (Integer(1, 10_000), "Nodes of the gang; all or none start."),
        "gpus_per_node": (Integer(1, 64), "GPUs on each node."),
        "min_nodes": (Integer(1, 10_000), "Fewest nodes; only `nodes` itself works yet."),
        "cpus_per_gpu": (Integer(1, 256), "CPUs (hardware threads) for each GPU."),
        "memory_per_node": (Memory(1, 64 << 20), "Memory on each node; none = the cluster's rule."),
    }
    needed = () if is_override else ("nodes", "gpus_per_node")
    return {
        name: Field(kind, about) if name in needed else Field(kind, about, None)
        for name, (kind, about) in sizes.items()
    }


GANG: Final = Object(
    {
        **_gang(is_override=False),
        "exclusive": Field(Flag(), "Whole nodes: no other job on them.", False),
        "start_timeout": Field(
            Duration(1, DAY_S), "Longest time from accepted to all members running.", 300_000
        ),
        "max_restarts": Field(Integer(0, 100), "Restarts after a failed start or node.", 3),
    }
)

MODEL: Final = Object(
    {
        "parameters": Field(Integer(1, 10**15), "Parameters of the model.", None),
        "layers": Field(Integer(1, 100_000), "Transformer layers.", None),
        "hidden": Field(Integer(1, 10**7), "Hidden size.", None),
        "ffn_hidden": Field(Integer(1, 10**8), "Feed-forward size.", None),
        "heads": Field(Integer(1, 100_000), "Attention heads.", None),
        "kv_heads": Field(Integer(1, 100_000), "Key and value heads.", None),
        "vocab": Field(Integer(1, 10**8), "Vocabulary size.", None),
        "sequence": Field(Integer(1, 10**9), "Sequence length.", None),
    }
)

PARALLELISM: Final = Object(
    {
        "tp": Field(Integer(1, 100_000), "Tensor parallel size.", 1),
        "pp": Field(Integer(1, 100_000), "Pipeline parallel size.", 1),
        "dp": Field(Integer(1, 100_000), "Data parallel size.", 1),
        "cp": Field(Integer(1, 100_000), "Context parallel size.", 1),
        "ep": Field(Integer(1, 100_000), "Expert parallel size; part of dp, not a factor.", 1),
        "global_batch": Field(Integer(1, 10**9), "Sequences in one step.", None),
        "micro_batch": Field(Integer(1, 10**9), "Sequences in one forward pass.", None),
        "zero": Field(Integer(0, 3), "ZeRO stage.", None),
        "precision": Field(Choice(("bf16", "fp16", "fp8", "fp32")), "Number format.", None),
        "recompute": Field(Choice(("none", "selective", "full")), "Recomputation.", None),
        "sequence_parallel": Field(Flag(), "Sequence parallelism beside tp.", None),
        "model": Field(MODEL, "What is trained.", None),
    }
)

_FLAVOR: Final = Object(
    {
        "name": Field(_NAME, "The GPU model's name in the catalogue."),
        "gang": Field(Object(_gang(is_override=True)), "Sizes on this GPU model.", None),
        "parallelism": Field(PARALLELISM, "Parallelism on this GPU model.", None),
    }
)

TOPOLOGY: Final = Object(
    {
        "required": Field(Choice(TIERS), "All nodes within one domain of this tier.", ""),
        "preferred": Field(Choice(TIERS), "The lowest tier that fits is taken.", ""),
    }
)

CHECKPOINT: Final = Object(
    {
        "signal": Field(
            Choice(("USR1", "USR2", "TERM", "INT", "HUP", "CONT")), "Asks the job to save.", "USR1"
        ),
        "grace": Field(Duration(0, DAY_S), "Time to save in after the signal.", 120_000),
        "interval": Field(Duration(1, YEAR_S), "How often the job saves by itself.", None),
        "store": Field(_STORE, "The store it saves to.", None),
    }
)

RUN: Final = Object(
    {
        "script": Field(_SCRIPT, "The batch script, for Slurm.", ""),
        "workdir": Field(_WORKDIR, "Working directory; none = the account's home.", ""),
        "output": Field(_OUTPUT, "Where standard output goes; Slurm's patterns work.", ""),
        "error": Field(_OUTPUT, "Where standard error goes; none = with the output.", ""),
        "tasks_per_node": Field(
            Integer(1, 1024), "Processes that `srun` starts on each node; Slurm only.", 1
        ),
        **container.FIELDS,
    }
)

JOB: Final = Object(
    {
        "name": Field(Text(200), "A label for people.", ""),
        "tenant": Field(_TENANT, "The path of the tenant that is billed."),
        "class": Field(Choice(CLASSES), "What the job asks of its tenant's quota.", "auto"),
        "priority": Field(NamedInteger(PRIORITIES, 0, 1000), "Order within the tenant.", 500),
        "flavors": Field(
            Items(NameOr(_NAME, _FLAVOR), most=16, least=1), "Acceptable GPU models, best first."
        ),
        "prefer": Field(
            Choice(("order", "start", "price")), "What decides between the flavors.", "order"
        ),
        "gang": Field(GANG, "Nodes and what is asked of each."),
        "topology": Field(TOPOLOGY, "How close the nodes must be.", None),
        "parallelism": Field(PARALLELISM, "How the job splits its work over the GPUs.", None),
        "time_limit": Field(Duration(1, YEAR_S), "Longest run time of one attempt."),
        "checkpoint": Field(CHECKPOINT, "How the job saves its work.", None),
        "run": Field(RUN, "What is run: a script, an image, or both, and then either will do."),
        "environment": Field(
            Pairs(_VARIABLE, Text(32_768, has_lines=True), most=256, reserved="MUSTER_"),
            "Variables for the job.",
            {},
        ),
        "requires": Field(
            Items(_STORE, most=64), "Stores and data sets the cluster must have.", ()
        ),
        "labels": Field(Pairs(_LABEL_NAME, Text(255), most=64), "For people and reports.", {}),
        "clusters": Field(
            Object(
                {
                    "only": Field(Items(_NAME, most=64), "Only these; empty = any.", ()),
                    "avoid": Field(Items(_NAME, most=64), "None of these.", ()),
                }
            ),
            "Where the job may go.",
            None,
        ),
        "not_before": Field(Moment(), "Not to start earlier.", None),
        "deadline": Field(Later("Deadlines are not supported yet."), "To end by.", None),
        "depends_on": Field(
            Later("Dependencies are not supported yet."), "Jobs that go before.", None
        ),
        "array": Field(Later("Job arrays are not supported yet."), "Many jobs as one.", None),
    }
)
