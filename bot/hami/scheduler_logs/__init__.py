"""What HAMi's scheduler and kube-scheduler write: log lines, filter runs rebuilt from them, events and reasons."""
