"""What a node registers, and what the scheduler makes of it: handshakes, locks, scaling."""
