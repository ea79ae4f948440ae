"""Volcano as recorded: what its controllers, scheduler and webhooks make of objects.

Pure functions from objects and time to writes, so that the same code can play Volcano in the
simulator's own API (`cluster`) or inside a real one.
"""
