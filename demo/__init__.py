"""A character transformer trained from scratch in about a minute: `python -m demo`.

The model, the optimiser and the gradient check are plain functions of tensors. So the whole path from
text to trained parameters can be read here, without a framework in between.
"""
