import shop
from shop import Item, price_of
from shop.prices import load, total


def make() -> shop.Stock:
    stock = shop.Stock()
    apple = Item("apple", 2)
    stock.add(apple.take(1))
    return stock


def main() -> int:
    size = 1
    table = load("{}")
    return total(make()) + price_of(make().oldest()) + size + len(table)
