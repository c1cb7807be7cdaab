"""Before a scheduler looks at a pod: whether it is there, and what HAMi's webhook made of it."""
