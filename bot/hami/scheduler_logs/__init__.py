"""What HAMi's schedulers write: log lines, filter runs rebuilt from them, events and reasons."""
