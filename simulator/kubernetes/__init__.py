"""The Kubernetes API in memory, as much of it as a broker's client calls.

Knows nothing of Volcano: its resources are rows of a table, its webhooks are handed in.
"""
