"""Playbooks that a team adds by itself: found in a folder or in installed packages, asked like the bot's own."""
