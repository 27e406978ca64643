"""Calls between ranks, and graphs that span ranks: the layer below torch's names `distributed.rpc` and
`distributed.autograd`.

The modules are `messages` (values as bytes), `contexts` (edges of the graph between ranks), `agent` (sending and
running calls), `references` (values on other ranks) and `backward` (the engine).
"""
