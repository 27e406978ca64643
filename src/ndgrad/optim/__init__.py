"""Optimizers and learning rate schedules, under torch's names."""

from __future__ import annotations

import ndgrad.optim.lr_scheduler as lr_scheduler
import ndgrad.optim.swa_utils as swa_utils
from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.optim.adafactor import Adafactor
from ndgrad.optim.adam import Adam, Adamax, AdamW, NAdam, RAdam
from ndgrad.optim.adaptive import Adadelta, Adagrad, RMSprop, Rprop
from ndgrad.optim.lbfgs import LBFGS
from ndgrad.optim.muon import Muon
from ndgrad.optim.optimizer import Optimizer
from ndgrad.optim.sgd import ASGD, SGD
from ndgrad.optim.sparse_adam import SparseAdam

__all__ = [
    "ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "LBFGS", "Muon", "NAdam", "Optimizer",
    "RAdam", "RMSprop", "Rprop", "SGD", "SparseAdam", "lr_scheduler", "swa_utils",
]  # fmt: skip

_refuse_absent(__name__)
