"""Scenes: what was read about one question, whole, with what follows from it: all that a rule may look at.

A scene is made once, by `gather`, and never changed. What is worked out of it is worked out when the first rule asks,
and kept for the others.
"""
