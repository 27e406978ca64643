"""Functions that torch keeps apart as experimental: tracing of ops (`proxy_tensor`) and fusions (`optimization`)."""
