"""Digests, the pure part: when they are due, what they compare. No clock, no network, no store."""
