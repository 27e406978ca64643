"""Open transforms: levels, forward mode, batching, and in-place writes inside of them."""
