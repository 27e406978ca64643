"""A character transformer trained from scratch in less than a minute: `python -m demo`.

The model, the optimiser and the gradient check are plain functions of tensors. So the whole path from
text to trained parameters can be read here, without a framework in between.
"""

import os

# Matrices of this size gain little from a second BLAS thread, and threads that wait for each other make the demo ten
# times slower on a busy machine. NumPy reads the variable when it is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
