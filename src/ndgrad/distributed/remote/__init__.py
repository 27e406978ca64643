"""Calls between ranks and graphs that span them, below `distributed.rpc` and `distributed.autograd`, which are torch's
names for them: `messages` (values as bytes), `contexts` (where the graph leaves a rank), `agent` (who carries calls and
runs them), `references` (values that stay elsewhere), `backward` (the engine)."""
