"""Rules that compare requests with what the cluster has: too large, too many, or held by others."""
