"""GET /metrics: what waits on each cluster and why, what has room, and whether the bot itself is well.

The exposition is OpenMetrics, or Prometheus' text, as the client asks. No series names a pod, a node or a UUID.
"""
