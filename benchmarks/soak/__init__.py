"""The running bot for an hour, killed at random between a Slack and a cluster that fail: is anything acked lost?

`python -m benchmarks.soak --minutes 60` (or `make soak`). One seed makes the same choices; how they fall together in
time is the machine's.
"""
