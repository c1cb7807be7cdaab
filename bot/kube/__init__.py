"""The Kubernetes side: narrow models, the `Cluster` that playbooks read, a live cluster and a recorded one."""
