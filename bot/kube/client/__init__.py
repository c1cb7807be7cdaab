"""The way to an API server: credentials, requests, and their answers as narrow models."""
