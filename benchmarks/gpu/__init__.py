"""Programs on a GPU, through torch and ndgrad in one process: `python -m benchmarks.gpu`."""
