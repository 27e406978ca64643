"""`DistributedOptimizer`: steps parameters on several ranks, each on its rank, with the gradients of a
`distributed.autograd` context.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ndgrad._src.foundations.locks import make_lock
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.distributed import rpc
from ndgrad.distributed.autograd import get_gradients
from ndgrad.futures import Future


class _Local:
    """The optimizer of one rank's parameters."""

    #: Steps of several contexts may come at once.
    lock = make_lock()

    def __init__(
        self, optimizer_class: Any, references: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self.parameters = [reference.local_value() for reference in references]
        self.optimizer = optimizer_class(self.parameters, *args, **kwargs)

    def confirm(self) -> None:
        """Do nothing: the reply confirms that the optimizer exists."""

    def step(self, context_id: int) -> None:
        """Step with the gradients of a context; `.grad` is unchanged afterwards."""
        gradients = get_gradients(context_id)
        with self.lock:
            before = [p.grad for p in self.parameters]
            try:
                for p in self.parameters:
                    p.grad = gradients.get(p)
                self.optimizer.step()
            finally:
                for p, grad in zip(self.parameters, before, strict=True):
                    p.grad = grad


class DistributedOptimizer:
    """An optimizer of parameters on several ranks, given by references. `step(context_id)` lets each rank step its
    parameters with the gradients of the context.

    Args:
        optimizer_class: class of the optimizer on each rank.
        params_rref: references to the parameters.
        args, kwargs: further arguments of the class.

    >>> import ndgrad
    >>> from ndgrad.distributed import autograd, optim, rpc
    >>> rpc.init_rpc("worker")
    >>> w = ndgrad.ones(2, requires_grad=True)
    >>> optimizer = optim.DistributedOptimizer(ndgrad.optim.SGD, [rpc.RRef(w)], lr=0.5)
    >>> with autograd.context() as context_id:
    ...     autograd.backward(context_id, [(w * w).sum()])
    ...     optimizer.step(context_id)
    >>> w
    tensor([0., 0.], requires_grad=True)
    >>> rpc.shutdown()
    """

    def __init__(
        self, optimizer_class: type[Any], params_rref: Sequence[rpc.RRef[Tensor]], *args: Any, **kwargs: Any
    ) -> None:
        if not params_rref:
            raise ValueError("DistributedOptimizer: there are no parameters. Give RRefs of tensors. [nd-optimizer]")
        of_rank: dict[int, list[rpc.RRef[Tensor]]] = {}
        for reference in params_rref:
            of_rank.setdefault(reference.owner().id, []).append(reference)
        self.remote_optimizers = [
            rpc.remote(rank, _Local, args=(optimizer_class, references, args, kwargs))
            for rank, references in of_rank.items()
        ]
        _wait_for([optimizer.rpc_async().confirm() for optimizer in self.remote_optimizers])

    def step(self, context_id: int) -> None:
        """Step the parameters of all ranks. If some ranks fail, the others have stepped, and the first error is
        raised.

        Args:
            context_id: number of the context of `distributed.autograd` with the gradients.
        """
        _wait_for([optimizer.rpc_async().step(context_id) for optimizer in self.remote_optimizers])


def _wait_for(futures: Sequence[Future[Any]]) -> None:
    errors = []
    for future in futures:
        try:
            future.wait()
        except Exception as error:
            errors.append(error)
    if errors:
        raise errors[0]
