"""Rings phones: what pagers are sent, what they answer, and what they post back."""
