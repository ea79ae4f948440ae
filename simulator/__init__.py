"""Simulated GPU clusters that answer over the wire protocols of real ones.

A program of its own: it imports no app and no backend of Muster, so that agreement with it means
something. `python -m simulator --example` prints a configuration to start from.
"""
