"""Programs for people who run or change Muster: the demo, the tests, the checks.

Everything here that runs before `.venv` exists uses the standard library only.
"""
