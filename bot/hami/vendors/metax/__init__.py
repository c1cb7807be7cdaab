"""MetaX's GPUs: whole ones, and shares of them (sGPU)."""

from bot.hami.vendors.metax.gpu import METAX_GPU
from bot.hami.vendors.metax.sgpu import METAX_SGPU

__all__ = ["METAX_GPU", "METAX_SGPU"]
