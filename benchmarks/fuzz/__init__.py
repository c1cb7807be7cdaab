"""What foreigners send, changed at random: every input gets an answer or a clear refusal.

`python -m benchmarks.fuzz --inputs 1000000` (or `make fuzz`). The same seed makes the same inputs.
"""
