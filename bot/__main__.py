"""`python -m bot`, and the console command `hami-bot`."""

from bot.main import main

if __name__ == "__main__":
    main()
