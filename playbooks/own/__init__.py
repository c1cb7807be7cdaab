"""Playbooks that a team adds by itself: found in a folder or in installed packages, asked as ours are."""
