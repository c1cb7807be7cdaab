"""Enflame's GCUs: whole ones, and slices of them (DRS)."""

from bot.hami.vendors.enflame.drs import ENFLAME_DRS
from bot.hami.vendors.enflame.gcu import ENFLAME_GCU

__all__ = ["ENFLAME_DRS", "ENFLAME_GCU"]
