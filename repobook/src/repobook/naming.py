"""Names as the pages group them."""


def group_of(name: str) -> str:
    """The group of a name: its first two letters or digits, without leading underscores."""
    head = name.lstrip("_~").lower()[:2]
    return "".join(char if char.isascii() and char.isalnum() else "-" for char in head) or "-"
