"""The fields of a pod template, as Kubernetes has them up to 1.36."""

from typing import Final

from federation.intake.fate import Fate
from federation.intake.vcjob.field import Takes, left, taken

_T, _N, _F, _Q = Takes.TEXT, Takes.COUNT, Takes.FLAG, Takes.QUANTITY
_O, _OS, _TS, _W = Takes.OBJECT, Takes.OBJECTS, Takes.TEXTS, Takes.WORDS
TEMPLATE: Final = "spec.tasks[].template."
POD: Final = f"{TEMPLATE}spec."
_SERVER = "The server writes it; it says nothing about a new job."
_PINNED = "Muster pins each pod to its node by itself."
_LIMITS = "It must be the same in all tasks."
_SHARED = "A pod shares nothing of its node's. Take it out."
_IDENTITY = "Pods run as your account on the cluster says."
_NO_SIDECAR = "There is one container a node. Do it in the container's own command."
_ADMIN = "It is the cluster admin's to decide."
_NO_KIND = "Only claims, secrets and memory at /dev/shm can be mounted."
_STORED = f"{_NO_KIND} Put the data on a volume claim."

_MAPPED = (
    *taken(
        TEMPLATE,
        Fate.MAPPED,
        (
            ("metadata", _O, "Annotations of networks only."),
            (
                "metadata.annotations",
                _W,
                "`k8s.v1.cni.cncf.io/networks` (names, parted by commas) is `run.networks`; the others are dropped.",
            ),
            ("spec", _O, "The pod."),
        ),
    ),
    *taken(
        POD,
        Fate.MAPPED,
        (
            ("activeDeadlineSeconds", _N, f"`time_limit`. It is needed. {_LIMITS}"),
            ("containers[]", _OS, "`run`: exactly one container."),
            ("hostNetwork", _F, "`run.host_network`."),
            ("imagePullSecrets[]", _OS, "`run.image_pull_secrets`."),
            ("imagePullSecrets[].name", _T, "The secret's name."),
            (
                "nodeSelector",
                _W,
                "`flavors`, where a value is a GPU model that clusters know; other labels are refused.",
            ),
            ("runtimeClassName", _T, "`run.runtime_class`."),
            ("serviceAccount", _T, "The old name of `serviceAccountName`."),
            ("serviceAccountName", _T, "`run.service_account`."),
            ("volumes[]", _OS, "`run.volumes`, `run.secrets` or `run.shm`."),
            ("volumes[].name", _T, "What mounts name."),
            ("volumes[].persistentVolumeClaim", _O, "`run.volumes`."),
            ("volumes[].persistentVolumeClaim.claimName", _T, "`run.volumes[].claim`."),
            ("volumes[].persistentVolumeClaim.readOnly", _F, "`run.volumes[].read_only`."),
            ("volumes[].secret", _O, "`run.secrets` with `mount`."),
            ("volumes[].secret.secretName", _T, "`run.secrets[].name`."),
            ("volumes[].emptyDir", _O, "`run.shm`: of memory, mounted at /dev/shm; else refused."),
            ("volumes[].emptyDir.medium", _T, "`Memory`; scratch space on disks is refused."),
            (
                "volumes[].emptyDir.sizeLimit",
                _Q,
                "`run.shm`. Without it: the pod's memory, which is Kubernetes' own bound.",
            ),
        ),
    ),
)

_CARRIED = (
    *taken(
        POD,
        Fate.CARRIED,
        (
            ("dnsPolicy", _T, "`ClusterFirst`, `ClusterFirstWithHostNet`; others are refused."),
            ("schedulerName", _T, "`volcano`; another scheduler is refused."),
            ("hostIPC", _F, "`false`; `true` is refused: ask for `/dev/shm` by an `emptyDir`."),
            ("hostPID", _F, "`false`; `true` is refused: a pod sees its own processes only."),
            (
                "shareProcessNamespace",
                _F,
                "`false`; `true` is refused: there is one container a node.",
            ),
        ),
    ),
    *left(
        f"{TEMPLATE}metadata.",
        Fate.CARRIED,
        (
            ("creationTimestamp", _SERVER),
            ("generateName", "Volcano names pods itself."),
            ("generation", _SERVER),
            ("managedFields", _SERVER),
            ("name", "Volcano names pods itself."),
            ("resourceVersion", _SERVER),
            ("selfLink", _SERVER),
            ("uid", _SERVER),
        ),
    ),
)

_DROPPED = (
    *left(
        TEMPLATE,
        Fate.DROPPED,
        (
            ("metadata.labels", "Pods bear Muster's labels. The job's own are `metadata.labels`."),
            ("metadata.namespace", "Jobs run in the namespace of your account on each cluster."),
        ),
    ),
    *left(
        POD,
        Fate.DROPPED,
        (
            ("automountServiceAccountToken", "Pods have a token where they name an account."),
            ("enableServiceLinks", "It is for variables of other services."),
            ("hostUsers", _ADMIN),
            ("hostname", "Pods are called after the attempt."),
            ("os", "Clusters run Linux."),
            ("preemptionPolicy", "Muster decides who gives way."),
            ("priority", "Order is Muster's: `priority` of the job."),
            ("priorityClassName", "Order is Muster's: `priority` of the job."),
            ("restartPolicy", "Pods are never started again in place; gangs are, as a whole."),
            ("setHostnameAsFQDN", "Pods are called after the attempt."),
            ("subdomain", "Pods are called after the attempt."),
            (
                "terminationGracePeriodSeconds",
                "It is `checkpoint.grace` where the job says that it can save, else 30 s.",
            ),
            ("tolerations", "The cluster's admin says which taints a flavor's jobs tolerate."),
            ("topologySpreadConstraints", _PINNED),
            ("affinity.podAffinity", _PINNED),
            ("affinity.podAntiAffinity", _PINNED),
        ),
    ),
    *left(
        f"{POD}securityContext.",
        Fate.DROPPED,
        tuple(
            (name, _IDENTITY)
            for name in (
                "appArmorProfile",
                "fsGroup",
                "fsGroupChangePolicy",
                "runAsGroup",
                "runAsNonRoot",
                "runAsUser",
                "seLinuxChangePolicy",
                "seLinuxOptions",
                "seccompProfile",
                "supplementalGroups",
                "supplementalGroupsPolicy",
            )
        ),
    ),
    *left(
        f"{POD}volumes[].",
        Fate.DROPPED,
        (("secret.defaultMode", "Files of secrets may be read by all in the pod."),),
    ),
)

_PARENTS = taken(
    POD,
    Fate.MAPPED,
    (
        ("affinity", _O, "By kind: that between pods is dropped, that to nodes refused."),
        ("securityContext", _O, "Field by field."),
    ),
)

_REFUSED = (
    *left(
        f"{TEMPLATE}metadata.",
        Fate.REFUSED,
        (
            ("deletionGracePeriodSeconds", "It is of a pod that is being deleted. Take it out."),
            ("deletionTimestamp", "It is of a pod that is being deleted. Take it out."),
            ("finalizers", "A finalizer would keep the pods from going away. Take it out."),
            ("ownerReferences", "The pods belong to their job. Take it out."),
        ),
    ),
    *left(
        POD,
        Fate.REFUSED,
        (
            (
                "affinity.nodeAffinity",
                f"{_PINNED} Ask for a GPU model with ?flavor=, for nearness with networkTopology.",
            ),
            ("dnsConfig", f"{_ADMIN} Take it out."),
            ("ephemeralContainers", _NO_SIDECAR),
            ("hostAliases", "Names of other hosts are the cluster's. Take it out."),
            ("hostnameOverride", "Pods are called after the attempt. Take it out."),
            ("initContainers", _NO_SIDECAR),
            ("nodeName", f"{_PINNED} Take it out."),
            ("overhead", f"{_ADMIN} It belongs to the runtime class."),
            ("readinessGates", "A gang runs when all its containers do. Take it out."),
            ("resourceClaims", "Devices are asked for by resource, as `nvidia.com/gpu`."),
            ("resources", "Say it in the container's `resources`."),
            ("schedulingGates", "Hold the job with `POST /jobs/<id>/hold` instead."),
            ("schedulingGroup", "A job is one gang. Take it out."),
            ("securityContext.sysctls", f"{_ADMIN} Take it out."),
            ("securityContext.windowsOptions", "Clusters run Linux. Take it out."),
            ("workloadRef", "A job is one gang. Take it out."),
        ),
    ),
    *left(
        f"{POD}volumes[].",
        Fate.REFUSED,
        (
            (
                "hostPath",
                f"{_SHARED} Data are on claims, /dev/shm is an `emptyDir` of memory, and network cards are resources (`rdma/hca`).",
            ),
            ("configMap", f"{_NO_KIND} Put the files into the image, a secret or a claim."),
            ("downwardAPI", f"{_NO_KIND} Muster's own variables say who a pod is."),
            ("ephemeral", "Claims are not made for a job. Make one and name it."),
            ("projected", f"{_NO_KIND} Mount the secret by itself."),
            ("secret.items", "Secrets are mounted whole. Take it out."),
            ("secret.optional", "A secret has to be there. Take it out."),
            ("image", f"{_NO_KIND} Copy it into the job's image."),
            *(
                (kind, _STORED)
                for kind in (
                    "awsElasticBlockStore",
                    "azureDisk",
                    "azureFile",
                    "cephfs",
                    "cinder",
                    "csi",
                    "fc",
                    "flexVolume",
                    "flocker",
                    "gcePersistentDisk",
                    "gitRepo",
                    "glusterfs",
                    "iscsi",
                    "nfs",
                    "photonPersistentDisk",
                    "portworxVolume",
                    "quobyte",
                    "rbd",
                    "scaleIO",
                    "storageos",
                    "vsphereVolume",
                )
            ),
        ),
    ),
)

POD_FIELDS: Final = (*_MAPPED, *_PARENTS, *_CARRIED, *_DROPPED, *_REFUSED)
