"""What a backend is told of an attempt."""

from collections.abc import Mapping
from typing import Any

from clusters.core.charging import charge_of
from clusters.core.gang import Gang
from clusters.core.queueing import queue_of
from clusters.models import ClusterAccount
from federation.core.plan import Binding
from federation.core.proof import resume_environment
from federation.core.spec import JobSpec
from kit.ids import fence


def gang_of(
    binding: Binding, job: Mapping[str, Any], *, person: ClusterAccount, options: Mapping[str, str]
) -> Gang:
    """What the backend is told. `options` are the cluster's: `charge.*`, `queue.*`, `qos.<class>`.

    A person's home there is where a job without a working directory runs, and its HOME.
    """
    spec = JobSpec.from_json(job["spec"])
    path, service_class = job["tenant__path"], binding.service_class
    checkpoint = spec.checkpoint
    return Gang(
        fence=fence(job["uuid"], binding.number),
        title=job["name"],
        account=person.account,
        charge=charge_of(options, path),
        queue=queue_of(options, path, binding.flavor, service_class) or binding.queue,
        service_class=options.get(f"qos.{binding.service_class}", ""),
        shape=binding.shape,
        device=binding.device,
        nodes=binding.nodes,
        time_limit_s=-(-spec.time_limit_ms // 1000),
        script=spec.run.script,
        workdir=spec.run.workdir or person.home,
        output=spec.run.output,
        error=spec.run.error,
        tasks_per_node=spec.run.tasks_per_node,
        container=spec.run.container,
        run_as=person.run_as,
        environment={
            **({"HOME": person.home} if person.home else {}),
            **spec.environment_on(binding.flavor),
            "MUSTER_JOB_ID": str(job["uuid"]),
            "MUSTER_ATTEMPT": str(binding.number),
            "MUSTER_CLUSTER": binding.cluster_name,
            "MUSTER_FLAVOR": binding.flavor,
            "MUSTER_CLASS": binding.service_class,
            "MUSTER_TIER": binding.tier,
            "MUSTER_NODES": ",".join(binding.nodes),
            "MUSTER_GPUS_PER_NODE": str(binding.shape.per_node.gpus),
            **resume_environment(job.get("saved_step"), job.get("saved_path") or ""),
        },
        signal=checkpoint.signal if checkpoint else "",
        grace_s=-(-checkpoint.grace_ms // 1000) if checkpoint else 0,
        labels=dict(spec.labels),
    )
