import argparse
import os
import random

import numpy as np
import torch
import torch.backends.cudnn as cudnn

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=42)
parser.add_argument("--no-cuda", action="store_true")
args = parser.parse_args([])


def set_seed(seed):
    random.seed(seed)
    np.random.seed(seed)
    os.environ["PYTHONHASHSEED"] = str(seed)
    torch.manual_seed(seed)
    torch.cuda.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)
    cudnn.deterministic = True
    cudnn.benchmark = False
    torch.use_deterministic_algorithms(True, warn_only=True)


set_seed(args.seed)
use_cuda = not args.no_cuda and torch.cuda.is_available()
use_mps = hasattr(torch.backends, "mps") and torch.backends.mps.is_available()
device = torch.device("cuda") if use_cuda else torch.device("mps") if use_mps else torch.device("cpu")
print(device, torch.cuda.device_count(), torch.cuda.is_available(), use_mps, torch.version.cuda)
print(torch.are_deterministic_algorithms_enabled(), cudnn.deterministic, cudnn.benchmark, torch.cuda.memory_allocated())
torch.use_deterministic_algorithms(False)
major, minor = (int(n) for n in torch.__version__.split(".")[:2])
print(major >= 2, torch.__version__ >= "2.0", torch.__version__ >= (1, 9), isinstance(torch.__version__, str))
print(torch.get_default_dtype() == torch.float32, torch.is_grad_enabled(), torch.get_default_device())
with torch.device("meta"):
    print(torch.empty(3).device)
torch.set_printoptions(precision=2, sci_mode=False)
print(torch.tensor([1.23456, 2.0]))
torch.set_printoptions(profile="default")
threads = torch.get_num_threads()
torch.set_num_threads(1)
print(torch.get_num_threads())
torch.set_num_threads(threads)
torch.set_float32_matmul_precision("high")
print(torch.get_float32_matmul_precision())
torch.set_float32_matmul_precision("highest")
a, b = torch.rand(3), torch.rand(3)
torch.manual_seed(1)
c = torch.rand(3)
torch.manual_seed(1)
print(torch.equal(a, b), torch.equal(c, torch.rand(3)))
if use_cuda:
    torch.cuda.synchronize()
torch.cuda.empty_cache()
