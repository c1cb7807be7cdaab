"""HAMi as it is installed: objects, versions, kube-scheduler's configuration, known bugs."""
