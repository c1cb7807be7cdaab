"""What a pod requests of HAMi, and what HAMi gave the pod."""
