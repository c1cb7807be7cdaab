"""`tune`: which of HAMi's settings to change on this cluster, with the arithmetic. `scene` is what was read, each
`AdviceRule` gives advice about one setting, `compare` and `days` say what a change brought.
"""
