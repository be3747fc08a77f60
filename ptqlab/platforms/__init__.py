"""Numbers per march with their sources."""
from ptqlab.platforms.march import MARCHES, PLATFORMS, Platform, platform

__all__ = ["MARCHES", "PLATFORMS", "Platform", "platform"]
