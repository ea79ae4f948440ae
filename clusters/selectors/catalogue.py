"""The catalogue of GPU models."""

from clusters.models import Cluster, Flavor


def flavor_names() -> list[str]:
    """The names of the GPU models that a cluster has, in order. One query."""
    return list(
        Flavor.objects.filter(clusters__cluster__in=Cluster.objects.all())
        .distinct()
        .order_by("name")
        .values_list("name", flat=True)
    )
