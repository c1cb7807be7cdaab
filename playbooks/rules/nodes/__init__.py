"""Rules about a node with GPUs that hands out none: its device plugin, its GPUs, its labels."""
