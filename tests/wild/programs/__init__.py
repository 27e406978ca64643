"""Scientific programs in plain NumPy and SciPy, of the kinds and in the habits of their fields. None of them knows ndgrad."""
