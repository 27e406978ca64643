"""Functions with a user-defined forward and backward (`autograd.Function`)."""
