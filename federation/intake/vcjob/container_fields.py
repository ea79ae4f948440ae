"""The fields of a container, as Kubernetes has them up to 1.36."""

from typing import Final

from federation.intake.fate import Fate
from federation.intake.vcjob.field import Takes, left, taken
from federation.intake.vcjob.pod_fields import POD

_T, _N, _F, _Q = Takes.TEXT, Takes.COUNT, Takes.FLAG, Takes.QUANTITY
_O, _OS, _TS = Takes.OBJECT, Takes.OBJECTS, Takes.TEXTS
CONTAINER: Final = f"{POD}containers[]."
_IDENTITY = "Pods run as your account on the cluster says."
_WATCHED = "Muster sees whether pods run; a gang is as well as all its members."
_UNKNOWN = "Its value is known on the cluster only. Use the variables that Muster sets."
_ADMIN = "It is the cluster admin's to decide."

_MAPPED = taken(
    CONTAINER,
    Fate.MAPPED,
    (
        ("args", _TS, "`run.args`."),
        ("command", _TS, "`run.command`. With some plugins a shell sets their variables first."),
        ("env[]", _OS, "`environment`, or `run.secrets` with `env`."),
        ("env[].name", _T, "The variable's name."),
        ("env[].value", _T, "Its value. `$(NAME)` within it is refused."),
        ("env[].valueFrom", _O, "A secret's key of the variable's own name."),
        ("env[].valueFrom.secretKeyRef", _O, "`run.secrets` with `env`."),
        ("env[].valueFrom.secretKeyRef.name", _T, "`run.secrets[].name`."),
        (
            "env[].valueFrom.secretKeyRef.key",
            _T,
            "`run.secrets[].env`: the variable's own name. Under another name it is refused.",
        ),
        ("envFrom[]", _OS, "`run.secrets` with `env: true`."),
        ("envFrom[].secretRef", _O, "All keys of a secret."),
        ("envFrom[].secretRef.name", _T, "`run.secrets[].name`."),
        ("image", _T, "`run.image`."),
        ("resources", _O, "What is asked of each node. A limit counts before a request."),
        (
            "resources.limits",
            Takes.AMOUNTS,
            "GPUs are `gang.gpus_per_node`, `cpu` is `gang.cpus_per_gpu`, `memory` is `gang.memory_per_node`, network devices are `run.rdma`; parts of GPUs and huge pages are refused, local disk is dropped.",
        ),
        ("resources.requests", Takes.AMOUNTS, "As limits."),
        (
            "securityContext",
            _O,
            "Field by field.",
        ),
        ("securityContext.capabilities", _O, "`add` `IPC_LOCK` only."),
        (
            "securityContext.capabilities.add",
            _TS,
            "`IPC_LOCK`, which pods with `run.rdma` have anyway; others are refused.",
        ),
        ("volumeMounts[]", _OS, "Where volumes are seen."),
        ("volumeMounts[].mountPath", _T, "`run.volumes[].mount`, `run.secrets[].mount`."),
        ("volumeMounts[].name", _T, "The volume."),
        ("volumeMounts[].readOnly", _F, "`run.volumes[].read_only`."),
        ("workingDir", _T, "`run.workdir`."),
    ),
)

_CARRIED = taken(
    CONTAINER,
    Fate.CARRIED,
    (
        ("name", _T, "It is only named in answers."),
        (
            "securityContext.privileged",
            _F,
            "`false`; `true` is refused: network cards are resources (`rdma/hca`).",
        ),
        (
            "securityContext.allowPrivilegeEscalation",
            _F,
            "`false`; `true` is refused: a pod has no rights to gain.",
        ),
    ),
)

_DROPPED = left(
    CONTAINER,
    Fate.DROPPED,
    (
        ("imagePullPolicy", _ADMIN),
        ("livenessProbe", _WATCHED),
        ("ports", "The pods of a job reach each other at every port."),
        ("readinessProbe", _WATCHED),
        ("startupProbe", _WATCHED),
        ("stdin", "Nobody is at a job's terminal."),
        ("stdinOnce", "Nobody is at a job's terminal."),
        ("terminationMessagePath", "Muster reads exit codes and logs."),
        ("terminationMessagePolicy", "Muster reads exit codes and logs."),
        ("tty", "Nobody is at a job's terminal."),
        ("securityContext.appArmorProfile", _IDENTITY),
        ("securityContext.capabilities.drop", f"{_ADMIN} Pods have what the runtime gives."),
        ("securityContext.procMount", _ADMIN),
        ("securityContext.runAsGroup", _IDENTITY),
        ("securityContext.runAsNonRoot", _IDENTITY),
        ("securityContext.runAsUser", _IDENTITY),
        ("securityContext.seLinuxOptions", _IDENTITY),
        ("securityContext.seccompProfile", _IDENTITY),
        ("volumeMounts[].recursiveReadOnly", "`readOnly` counts."),
    ),
)

_REFUSED = left(
    CONTAINER,
    Fate.REFUSED,
    (
        ("env[].valueFrom.configMapKeyRef", f"{_UNKNOWN} Or write the value."),
        ("env[].valueFrom.fieldRef", _UNKNOWN),
        ("env[].valueFrom.fileKeyRef", _UNKNOWN),
        ("env[].valueFrom.resourceFieldRef", _UNKNOWN),
        ("env[].valueFrom.secretKeyRef.optional", "A secret has to be there. Take it out."),
        ("envFrom[].configMapRef", "Write the variables into `env`, or use a secret."),
        ("envFrom[].prefix", "Variables keep the names of the secret's keys. Take it out."),
        ("envFrom[].secretRef.optional", "A secret has to be there. Take it out."),
        ("lifecycle", "Do it in the container's own command. Saving is `checkpoint`."),
        ("resizePolicy", "A running pod keeps its size. Take it out."),
        ("resources.claims", "Devices are asked for by resource, as `nvidia.com/gpu`."),
        ("restartPolicy", "Pods are never started again in place. Take it out."),
        ("restartPolicyRules", "Pods are never started again in place. Take it out."),
        ("securityContext.readOnlyRootFilesystem", "Containers may write to their own files."),
        ("securityContext.windowsOptions", "Clusters run Linux. Take it out."),
        ("volumeDevices", "Raw disks cannot be used. Mount a claim."),
        ("volumeMounts[].mountPropagation", "A pod shares no mounts with its node. Take it out."),
        ("volumeMounts[].subPath", "Claims are mounted whole. Mount it and use the path below."),
        (
            "volumeMounts[].subPathExpr",
            "Claims are mounted whole. Mount it and use the path below.",
        ),
    ),
)

CONTAINER_FIELDS: Final = (*_MAPPED, *_CARRIED, *_DROPPED, *_REFUSED)
