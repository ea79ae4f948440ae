"""Soaks, one a module: long runs that look for what everyday tests are too short to find."""
