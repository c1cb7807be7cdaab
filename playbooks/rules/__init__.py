"""Rules that several playbooks share: each looks at a scene and gives findings, and none does I/O."""
