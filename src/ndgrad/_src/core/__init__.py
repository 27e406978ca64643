"""The graph and its recorder.

Reading order: variable (a tensor's metadata), node (nodes and edges), versions and view (memory that tensors share),
saved (values kept for backward), record and generate (from a call to a node), dispatch (the general path of a call),
inplace (writes), modes (the state that calls depend on).
"""
