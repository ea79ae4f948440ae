"""The catalogue of GPU models."""

from clusters.models import Flavor


def flavor_names() -> list[str]:
    """The names of the GPU models that a cluster has, in order. One query."""
    return list(
        Flavor.objects.filter(clusters__isnull=False).distinct().values_list("name", flat=True)
    )
