"""HAMi's fit: whether a pod gets GPUs on a node, and what would have to change."""
