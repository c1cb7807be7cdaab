"""The client of an API server: credentials, requests, and their answers decoded as `bot.kube.models`."""
