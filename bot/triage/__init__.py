"""Triage threads, the pure part: what an alert says, what becomes of an incident. No clock, no network, no store."""
