"""Rules about a pod before a scheduler looks at it: whether it exists, and what HAMi's webhook made of it."""
