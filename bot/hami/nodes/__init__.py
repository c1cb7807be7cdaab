"""What a node registers with HAMi's scheduler, and what the scheduler concludes: handshakes, locks, scaling."""
