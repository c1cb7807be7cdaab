"""The Kubernetes side: narrow models, the `Cluster` that playbooks read, a live one and a recorded one."""
