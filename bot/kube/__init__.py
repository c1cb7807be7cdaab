"""The Kubernetes side: objects with the fields that rules read, and the `Cluster` of playbooks, live or recorded."""
