"""What a pod asks of HAMi, and what HAMi gave it."""
