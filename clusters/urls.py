"""Addresses of the fleet under `/api/v1/`. One cluster by name is `federation.api.urls`'."""

from django.urls import path

from clusters.api import mapping, members, reads

urlpatterns = [
    path("clusters", members.Clusters.as_view(), name="clusters"),
    path("clusters/probe", members.ProbeUnknown.as_view(), name="probe_unknown"),
    path("clusters/<slug:name>/probe", members.Probe.as_view(), name="probe"),
    path("clusters/<slug:name>/rotate", members.Rotate.as_view(), name="rotate"),
    path("clusters/<slug:name>/drain", members.Drain.as_view(), name="drain"),
    path("clusters/<slug:name>/cut-off", members.CutOff.as_view(), name="cut_off"),
    path("clusters/<slug:name>/undrain", members.Undrain.as_view(), name="undrain"),
    path("clusters/<slug:name>/accounts", mapping.Accounts.as_view(), name="accounts"),
    path(
        "clusters/<slug:name>/accounts/<str:username>",
        mapping.OneAccount.as_view(),
        name="cluster_account",
    ),
    path(
        "clusters/<slug:name>/flavors/<slug:flavor>",
        mapping.OneFlavor.as_view(),
        name="cluster_flavor",
    ),
    path("clusters/<slug:name>/nodes", reads.Nodes.as_view(), name="nodes"),
    path("clusters/<slug:name>/topology", reads.Topology.as_view(), name="topology"),
    path("clusters/<slug:name>/queues", reads.Queues.as_view(), name="member_queues"),
    path(
        "clusters/<slug:name>/fragmentation", reads.FragmentationOf.as_view(), name="fragmentation"
    ),
    path("flavors", mapping.Flavors.as_view(), name="flavors"),
]
