"""Programs: instructions, text form, partition into forward and backward, runs on NumPy."""
