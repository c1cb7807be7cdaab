"""Reads, filters and compares Go profiles (profile.proto), and prints them as `go tool pprof -top` does. Pure."""
