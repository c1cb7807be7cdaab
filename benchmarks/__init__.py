"""One file per budget; `python -m benchmarks` measures them all and prints one table. Nothing here is a test."""
