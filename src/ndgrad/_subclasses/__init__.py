"""`torch._subclasses`: the class of tensors without values that torch's compiler uses, for programs that ask for it."""

from ndgrad._subclasses.fake_tensor import FakeTensor, is_fake

__all__ = ["FakeTensor", "is_fake"]
