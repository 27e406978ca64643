"""Other libraries' interfaces over ndgrad, for programs that were written for them."""
