"""What users of HAMi really reported: public threads, and what the bot says first of each.

`docs/incidents.md` is written from these; `tests/test_threads.py` asks the bot about every one.
"""
