"""A small shop, for the check against jedi."""

from .stock import Item, Stock
from .prices import price as price_of
