"""Go profiles (profile.proto) read, filtered, compared and printed as `go tool pprof -top` prints them. Pure."""
