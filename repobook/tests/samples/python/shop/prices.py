import json

from . import stock as inventory
from .stock import Item, size

TABLE = {"apple": 2}


def price(item: Item) -> int:
    return TABLE.get(item.name, 1) * item.amount


def load(text: str) -> dict:
    return json.loads(text)


def total(items: inventory.Stock) -> int:
    first = items.oldest()
    return price(first) + size(items) + inventory.size(items) + first.age()
