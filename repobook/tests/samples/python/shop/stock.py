from __future__ import annotations


class Item:
    kind = "item"

    def __init__(self, name: str, amount: int) -> None:
        self.name = name
        self.amount = amount

    def take(self, amount: int) -> Item:
        self.amount -= amount
        return Item(self.name, amount)


class Fresh(Item):
    def take(self, amount: int) -> Item:
        return super().take(amount)

    def age(self) -> int:
        return self.amount


class Stock:
    def __init__(self) -> None:
        self.items: list[Item] = []
        self.first = Fresh("apple", 3)

    def add(self, item: Item) -> None:
        self.items.append(item)

    def oldest(self) -> Fresh:
        return self.first

    def count(self) -> int:
        return sum(item.amount for item in self.items) + self.first.age()


def size(stock: Stock) -> int:
    return stock.count()
