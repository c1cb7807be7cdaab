"""Rules about HAMi's own installation: schedulers, leader, versions, settings, device plugins on all nodes."""
