"""Where each node runs, in which type, and why: `place` makes the `Plan`."""
from ptqlab.placement.asks import Ask, Asks
from ptqlab.placement.place import place

__all__ = ["Ask", "Asks", "place"]
