"""What a node registers, and what HAMi's scheduler makes of it: handshakes, locks, scaling."""
