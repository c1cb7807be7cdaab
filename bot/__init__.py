"""The machinery of hami-bot, by concern; the questions live in `playbooks`, the entry points in `handlers`."""
