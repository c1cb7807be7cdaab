"""Rules that several playbooks share: each takes facts and gives findings, and none does I/O."""
