"""Kunlunxin's XPUs: whole ones, and shares of them (vXPU)."""

from bot.hami.vendors.kunlun.vxpu import VXPU
from bot.hami.vendors.kunlun.xpu import KUNLUN

__all__ = ["KUNLUN", "VXPU"]
