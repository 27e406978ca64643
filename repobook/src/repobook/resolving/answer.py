"""An answer of the resolver: the definitions that a name can mean, and how sure that is.

Note [ Certainty ]
certain: the scopes, imports and declared types lead to one qualified name (overloads count as one).
likely: the receiver's type is unknown, but the tree has only one definition with that name.
candidate: several definitions could be meant; all are listed, up to `CANDIDATES`. Above that the reference stays a
plain occurrence of the name, which `repobook uses` lists as unresolved.
"""

from repobook.resolving.tables import Sym

Answer = tuple[list[Sym], int]
NOTHING: Answer = ([], 0)
CANDIDATES = 6
# Imports, bases and aliases are followed this far.
DEPTH = 12
# Places that a name of another language can be registered for: a module, or the objects of a type.
MODULE, OBJECT = "function", "method"


def split_arguments(text: str) -> list[str]:
    """`A, B[int, str], metaclass=M` at its top-level commas."""
    parts: list[str] = []
    depth = 0
    start = 0
    for at, char in enumerate(text):
        if char in "([{<":
            depth += 1
        elif char in ")]}>":
            depth -= 1
        elif char == "," and depth <= 0:
            parts.append(text[start:at].strip())
            start = at + 1
    if text[start:].strip():
        parts.append(text[start:].strip())
    return parts


def identity(sym: Sym) -> str:
    """Name that two symbols share if they are one to a reader, such as the overloads of an operator."""
    return sym.qualified.partition(".")[0] if sym.kind == "operator" else sym.qualified


def choose_accessor(found: list[Sym], assigned: bool) -> list[Sym]:
    """The methods of a property that a read or an assignment calls: its getter or its setter."""
    if len(found) < 2:
        return found
    return [sym for sym in found if (sym.signature == "@setter") == assigned] or found
