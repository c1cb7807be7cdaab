"""Temporary changes of the scheduler's Deployment, which revert themselves by a record on the Deployment itself."""
