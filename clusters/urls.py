"""Addresses of the fleet under `/api/v1/`."""

from django.urls import path

from clusters import api

urlpatterns = [
    path("clusters", api.Clusters.as_view(), name="clusters"),
    path("clusters/<slug:name>", api.OneCluster.as_view(), name="cluster"),
    path("clusters/<slug:name>/nodes", api.Nodes.as_view(), name="nodes"),
    path("clusters/<slug:name>/topology", api.Topology.as_view(), name="topology"),
    path("clusters/<slug:name>/queues", api.Queues.as_view(), name="member_queues"),
    path("clusters/<slug:name>/fragmentation", api.FragmentationOf.as_view(), name="fragmentation"),
    path("clusters/<slug:name>/probe", api.Probe.as_view(), name="probe"),
    path("clusters/<slug:name>/drain", api.Drain.as_view(), name="drain"),
    path("clusters/<slug:name>/undrain", api.Undrain.as_view(), name="undrain"),
    path("flavors", api.Flavors.as_view(), name="flavors"),
]
