"""The simulated cluster itself: pure and deterministic; every call is told what time it is."""
