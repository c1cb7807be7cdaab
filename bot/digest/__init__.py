"""Digests, the pure part: when they are due, and what they compare. No clock, no network, no store."""
