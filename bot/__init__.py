"""The machinery of hami-bot, by concern; the questions live in `playbooks`, what wakes the bot in `handlers`."""
