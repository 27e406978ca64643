"""Places of a network where quantisation would begin and end, and modules fused for evaluation.

Models that torch can quantise contain such places also when they run in floating point.
"""

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.ao.quantization.fuse_modules import fuse_modules
from ndgrad.ao.quantization.stubs import DeQuantStub, QuantStub, QuantWrapper

__all__ = ["DeQuantStub", "QuantStub", "QuantWrapper", "fuse_modules"]

_refuse_absent(__name__)
