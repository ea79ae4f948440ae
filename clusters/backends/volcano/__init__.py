"""Volcano on Kubernetes, so far its pure half: what its objects say, and a gang as one of them.

Not in the registry yet: no cluster is of this kind until it can also be called.
"""
