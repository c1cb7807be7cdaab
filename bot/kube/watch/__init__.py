"""Lists that are kept in memory and followed by watches, for a bot that stays."""
