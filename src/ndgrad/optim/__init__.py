"""Optimizers and schedules of learning rates, under torch's names."""

from __future__ import annotations

import ndgrad.optim.lr_scheduler as lr_scheduler
from ndgrad.absent import refuse_absent as _refuse_absent
from ndgrad.optim.adam import Adam, Adamax, AdamW, NAdam, RAdam
from ndgrad.optim.adaptive import Adadelta, Adagrad, RMSprop, Rprop
from ndgrad.optim.lbfgs import LBFGS
from ndgrad.optim.optimizer import Optimizer
from ndgrad.optim.sgd import ASGD, SGD

__all__ = [
    "ASGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "LBFGS", "NAdam", "Optimizer", "RAdam", "RMSprop",
    "Rprop", "SGD", "lr_scheduler",
]  # fmt: skip

_refuse_absent(__name__)
