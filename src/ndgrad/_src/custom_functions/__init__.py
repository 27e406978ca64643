"""Functions with a forward and a backward of the user's own (`autograd.Function`)."""
