"""`fit`: whether a pod that is written in a manifest would get its GPUs, where, and what would have to change.
It asks the same fit of HAMi (`bot.hami.fit`) and the same rules as `why`, about a pod that is not there yet.
"""
