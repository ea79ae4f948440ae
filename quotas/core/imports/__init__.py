"""Quotas of other systems, read into ours: pure, from their text or documents."""
