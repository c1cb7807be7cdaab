"""Rules that several playbooks share: each turns a scene into findings, and none does I/O."""
