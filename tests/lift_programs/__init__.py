"""Programs for tests of `ndgrad.lift`: plain NumPy, in the shapes that other people's code has."""
