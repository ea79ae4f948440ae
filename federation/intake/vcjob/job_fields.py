"""The fields of a Volcano Job and its tasks, as `batch.volcano.sh/v1alpha1` has them."""

from typing import Final

from federation.intake.fate import Fate
from federation.intake.vcjob.field import Takes, left, taken

_T, _N, _F, _Q = Takes.TEXT, Takes.COUNT, Takes.FLAG, Takes.QUANTITY
_O, _OS, _TS, _W = Takes.OBJECT, Takes.OBJECTS, Takes.TEXTS, Takes.WORDS
_SERVER = "The server writes it; it says nothing about a new job."
_SAME = "As in the job's own."
_NEARNESS = "`topology.required` (hard) or `topology.preferred` (soft)."
_ONE_TASK = "Only where the job has one task, and one partition: then it is `topology`."

_MAPPED = taken(
    "",
    Fate.MAPPED,
    (
        ("metadata", _O, "`name` and `labels`."),
        ("metadata.name", _T, "`name`."),
        ("metadata.generateName", _T, "`name`, where the job has no name, without the last `-`."),
        ("metadata.labels", _W, "`labels`."),
        ("spec", _O, "The job."),
        ("spec.maxRetry", _N, "`gang.max_restarts`, one less: Volcano counts runs. 0 means 3."),
        ("spec.minAvailable", _N, "All pods; fewer (an elastic gang) is not supported yet."),
        ("spec.networkTopology", _O, _NEARNESS),
        ("spec.networkTopology.mode", _T, "`hard`, the default, or `soft`."),
        (
            "spec.networkTopology.highestTierAllowed",
            _N,
            "1 is `leaf`, 2 `spine`, with the warning `tier_assumed`: numbers are each cluster's own. 3 and more are refused.",
        ),
        (
            "spec.networkTopology.highestTierName",
            _T,
            "`domain`, `leaf` or `spine`; other names are refused.",
        ),
        ("spec.plugins", Takes.ANY, "By name, see below."),
        ("spec.policies[]", _OS, "By event and action, see below."),
        ("spec.policies[].event", _T, "One event."),
        ("spec.policies[].events", _TS, "Several events."),
        ("spec.policies[].action", _T, "What is done then."),
        ("spec.policies[].timeout", _T, "Of `PodPending`: `gang.start_timeout`."),
        (
            "spec.priorityClassName",
            _T,
            "`priority`, where it is `low`, `normal`, `high` or `critical`, also with `-priority` behind; else dropped.",
        ),
        ("spec.tasks[]", _OS, "`gang`: all pods of all tasks, which run the same container."),
        (
            "spec.tasks[].name",
            _T,
            "It is only named in answers; of `master` and `worker` see below.",
        ),
        ("spec.tasks[].replicas", _N, "`gang.nodes`: the sum over the tasks."),
        ("spec.tasks[].minAvailable", _N, "The task's replicas; fewer is not supported yet."),
        ("spec.tasks[].policies[]", _OS, _SAME),
        ("spec.tasks[].policies[].event", _T, _SAME),
        ("spec.tasks[].policies[].events", _TS, _SAME),
        ("spec.tasks[].policies[].action", _T, _SAME),
        ("spec.tasks[].policies[].timeout", _T, _SAME),
        ("spec.tasks[].partitionPolicy", _O, f"{_ONE_TASK} Partitions of one pod mean nothing."),
        ("spec.tasks[].partitionPolicy.totalPartitions", _N, _ONE_TASK),
        ("spec.tasks[].partitionPolicy.partitionSize", _N, _ONE_TASK),
        ("spec.tasks[].partitionPolicy.minPartitions", _N, "All of them, or 0."),
        ("spec.tasks[].partitionPolicy.networkTopology", _O, _ONE_TASK),
        ("spec.tasks[].partitionPolicy.networkTopology.mode", _T, _SAME),
        ("spec.tasks[].partitionPolicy.networkTopology.highestTierAllowed", _N, _SAME),
        ("spec.tasks[].partitionPolicy.networkTopology.highestTierName", _T, _SAME),
        ("spec.tasks[].template", _O, "`run` and what is asked of each node."),
        ("spec.volumes[]", _OS, "`run.volumes`, in every pod."),
        ("spec.volumes[].mountPath", _T, "`run.volumes[].mount`."),
        ("spec.volumes[].volumeClaimName", _T, "`run.volumes[].claim`."),
    ),
)

_CARRIED = (
    *taken(
        "",
        Fate.CARRIED,
        (
            ("apiVersion", _T, "`batch.volcano.sh/v1alpha1`; anything else is refused."),
            ("kind", _T, "`Job`; anything else is refused."),
            ("spec.schedulerName", _T, "`volcano`; another scheduler is refused."),
            (
                "spec.minSuccess",
                _N,
                "All pods; fewer is refused: a gang's end is all its members'.",
            ),
        ),
    ),
    *left(
        "metadata.",
        Fate.CARRIED,
        (
            ("creationTimestamp", _SERVER),
            ("generation", _SERVER),
            ("managedFields", _SERVER),
            ("resourceVersion", _SERVER),
            ("selfLink", _SERVER),
            ("uid", _SERVER),
        ),
    ),
    *left("", Fate.CARRIED, (("status", _SERVER),)),
)

_DROPPED = left(
    "",
    Fate.DROPPED,
    (
        ("metadata.annotations", "Annotations of a job are its cluster's own; Muster knows none."),
        ("metadata.namespace", "Jobs run in the namespace of your account on each cluster."),
        ("spec.queue", "Muster chooses the cluster, and its admin says which queue serves whom."),
        ("spec.runningEstimate", "It is a hint to Volcano. The limit is `activeDeadlineSeconds`."),
        (
            "spec.ttlSecondsAfterFinished",
            "Muster keeps what ended for a week, so that its logs can be read.",
        ),
        ("spec.tasks[].dependsOn", "All pods of a gang start together."),
        ("spec.tasks[].maxRetry", "Muster starts gangs again as a whole: `spec.maxRetry`."),
        ("spec.tasks[].topologyPolicy", "How GPUs and cores pair within a node is its admin's."),
    ),
)

_REFUSED = left(
    "",
    Fate.REFUSED,
    (
        ("metadata.finalizers", "A finalizer would keep the job from going away. Take it out."),
        ("metadata.ownerReferences", "A job over Muster belongs to nothing else. Take it out."),
        ("metadata.deletionGracePeriodSeconds", "The job is being deleted."),
        ("metadata.deletionTimestamp", "The job is being deleted."),
        (
            "spec.volumes[].volumeClaim",
            "Claims are not made for a job. Make one and name it: `volumeClaimName`.",
        ),
        (
            "spec.policies[].exitCode",
            "A program's exit code decides nothing in Muster: a gang whose program fails has failed.",
        ),
        (
            "spec.tasks[].policies[].exitCode",
            "A program's exit code decides nothing in Muster: a gang whose program fails has failed.",
        ),
    ),
)

JOB_FIELDS: Final = (*_MAPPED, *_CARRIED, *_DROPPED, *_REFUSED)
