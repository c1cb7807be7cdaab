"""Temporary changes of the scheduler's Deployment that undo themselves: what to patch, how to undo it, what was found.

The record of how to undo a change stands on the changed object itself, written in the same request as the change.
"""
