"""Temporary changes of the scheduler's Deployment that revert themselves: the patch, its revert, and the events.

The record of how to revert a change stands on the changed object itself, written in the same request as the change.
"""
