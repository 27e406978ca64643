"""Whole programs as users write them: training loops with schedules, averages, logs, states and changes between calls."""

from __future__ import annotations

HEAD = """
import collections, contextlib, functools, io, csv, logging, math, random, types, argparse, dataclasses
import numpy as np
import ndgrad
from ndgrad import nn, optim
import ndgrad.nn.functional as F
def net():
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    with ndgrad.no_grad():
        for i, p in enumerate(model.parameters()):
            p.copy_(ndgrad.arange(float(p.numel())).reshape(p.shape) * 0.1 - 0.2 * i)
    return model
x, t = ndgrad.tensor([[1.0, 2.0], [0.5, -1.0], [3.0, 0.25]]), ndgrad.tensor([[1.0], [0.0], [2.0]])
"""

#: Programs by name; each has `main(compile, call, change, watch)`.
SCENARIOS: dict[str, str] = {
    name: HEAD + text
    for name, text in {
        "AdamW, warm-up, cosine, clipping, average, logger, moving average": """
model = net()
ema = {n: p.detach().clone() for n, p in model.named_parameters()}
opt = optim.AdamW(model.parameters(), lr=0.01)
sched = optim.lr_scheduler.LambdaLR(opt, lambda n: min(1.0, (n + 1) / 3) * 0.5 * (1 + math.cos(math.pi * n / 10)))
log = logging.getLogger('program')
total = {'loss': 0.0, 'n': 0}
def main(compile, call, change, watch):
    def step(x, t):
        opt.zero_grad()
        loss = F.mse_loss(model(x), t)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        opt.step()
        sched.step()
        with ndgrad.no_grad():
            for n, p in model.named_parameters():
                ema[n].lerp_(p, 0.1)
        total['loss'] += loss.item()
        total['n'] += 1
        if total['n'] % 3 == 0:
            log.warning('loss %.3f', total['loss'] / total['n'])
        return loss
    f = compile(step)
    watch('total', lambda: total)
    watch('ema', lambda: ema)
    watch('model', lambda: model.state_dict())
    watch('lr', lambda: sched.get_last_lr())
    for _ in range(8):
        call(f, x, t)
""",
        "gradient accumulation": """
model = net()
opt = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
class Trainer:
    def __init__(self):
        self.count, self.losses = 0, []
    def step(self, x, t):
        loss = F.mse_loss(model(x), t) / 2
        loss.backward()
        self.count += 1
        if self.count % 2 == 0:
            opt.step()
            opt.zero_grad()
        self.losses.append(loss.detach())
        return loss.detach()
def main(compile, call, change, watch):
    trainer = Trainer()
    f = compile(trainer.step)
    watch('losses', lambda: trainer.losses)
    watch('parameters', lambda: list(model.parameters()))
    for _ in range(7):
        call(f, x, t)
""",
        "learning rate set by hand": """
model = net()
opt = optim.SGD(model.parameters(), lr=0.1)
def main(compile, call, change, watch):
    def step(x, t):
        opt.zero_grad()
        loss = F.mse_loss(model(x), t)
        loss.backward()
        opt.step()
        return loss.item()
    f = compile(step)
    watch('parameters', lambda: list(model.parameters()))
    for i in range(8):
        for group in opt.param_groups:
            group['lr'] = 0.1 / (i + 1)
        call(f, x, t)
""",
        "frozen layers, later thawed": """
model = net()
opt = optim.Adam(model.parameters(), lr=0.1)
def main(compile, call, change, watch):
    def step(x, t):
        opt.zero_grad()
        loss = F.mse_loss(model(x), t)
        loss.backward()
        opt.step()
        return loss
    f = compile(step)
    watch('parameters', lambda: list(model.parameters()))
    model[0].requires_grad_(False)
    call(f, x, t)
    call(f, x, t)
    model[0].requires_grad_(True)
    call(f, x, t)
    call(f, x, t)
    model[2] = nn.Linear(3, 1, bias=False)
    with ndgrad.no_grad():
        model[2].weight.fill_(0.5)
    call(f, x, t)
    model.eval()
    call(f, x, t)
""",
        "recurrent state kept over calls": """
cell = nn.GRUCell(2, 3)
with ndgrad.no_grad():
    for p in cell.parameters():
        p.fill_(0.1)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.h = ndgrad.zeros(3, 3)
    def forward(self, x):
        self.h = cell(x, self.h.detach())
        return self.h.sum()
def main(compile, call, change, watch):
    net = Net()
    f = compile(net)
    watch('h', lambda: net.h)
    watch('parameters', lambda: list(cell.parameters()))
    for i in range(5):
        call(f, x, then='backward')
    net.h = ndgrad.zeros(3, 3)
    call(f, x, then='backward')
""",
        "early stopping and best state": """
model = net()
opt = optim.SGD(model.parameters(), lr=0.5)
best, bad, state = float('inf'), 0, None
def main(compile, call, change, watch):
    def step(x, t):
        global best, bad, state
        opt.zero_grad()
        loss = F.mse_loss(model(x), t)
        loss.backward()
        opt.step()
        l = loss.item()
        if l < best:
            best, bad, state = l, 0, {k: v.clone() for k, v in model.state_dict().items()}
        else:
            bad += 1
        return bad > 2
    f = compile(step)
    watch('best', lambda: (best, bad, state))
    for _ in range(6):
        call(f, x, t)
""",
        "meters, confusion counts and a csv log": """
class Meter:
    def __init__(self):
        self.sum, self.count = 0.0, 0
    def update(self, v, n=1):
        self.sum += v * n
        self.count += n
    @property
    def avg(self):
        return self.sum / max(self.count, 1)
meters = collections.defaultdict(Meter)
out = io.StringIO()
writer = csv.writer(out)
counts = ndgrad.zeros(2, 2, dtype=ndgrad.int64)
model = net()
def main(compile, call, change, watch):
    @ndgrad.no_grad()
    def evaluate(x, t):
        p = model(x)
        meters['loss'].update(F.mse_loss(p, t).item(), len(x))
        meters['acc'].update((p > 0.5).eq(t > 0.5).float().mean().item(), len(x))
        for a, b in zip((p > 0.5).long().view(-1), (t > 0.5).long().view(-1)):
            counts[a, b] += 1
        writer.writerow([round(meters['loss'].avg, 4), meters['acc'].count])
        return p
    f = compile(evaluate)
    watch('meters', lambda: {k: vars(m) for k, m in meters.items()})
    watch('counts', lambda: counts)
    watch('csv', lambda: out.getvalue())
    for i in range(4):
        call(f, x[: 3 - i % 2], t[: 3 - i % 2])
""",
        "temperature, coefficients and a schedule of the user's": """
args = argparse.Namespace(temperature=1.0, beta=0.1, clip=True)
history = []
def anneal(n):
    return max(0.1, 1.0 - 0.2 * n)
def main(compile, call, change, watch):
    n = 0
    w = ndgrad.ones(2, 1, requires_grad=True)
    def loss(x, t):
        p = (x @ w) / args.temperature
        l = F.mse_loss(p, t) + args.beta * w.pow(2).sum() * anneal(n)
        if args.clip:
            l = l.clamp(max=5.0)
        history.append(anneal(n))
        return l
    f = compile(loss)
    watch('w', lambda: w)
    watch('history', lambda: history)
    for n in range(6):
        args.temperature *= 0.9
        args.clip = n % 3 != 2
        call(f, x, t, then='backward')
""",
        "two optimizers take turns": """
g, d = net(), net()
og, od = optim.Adam(g.parameters(), lr=0.05), optim.RMSprop(d.parameters(), lr=0.05)
turns = []
def main(compile, call, change, watch):
    def step(x, turn):
        opt, other = (og, d) if turn == 'g' else (od, g)
        opt.zero_grad()
        loss = (g(x) * d(x)).mean() * (1 if turn == 'g' else -1)
        loss.backward()
        opt.step()
        turns.append(turn)
        return loss.detach()
    f = compile(step)
    watch('turns', lambda: turns)
    watch('parameters', lambda: [*g.parameters(), *d.parameters()])
    for i in range(6):
        call(f, x, 'gd'[i % 2])
""",
        "dropout, noise and seeds": """
model = nn.Sequential(nn.Linear(2, 4), nn.Dropout(0.5), nn.Linear(4, 1))
def main(compile, call, change, watch):
    def step(x, t, noise):
        z = x + ndgrad.randn_like(x) * noise
        z = z * (ndgrad.rand(3, 1) > 0.2)
        return F.mse_loss(model(z), t)
    f = compile(step)
    watch('grads', lambda: [p.grad for p in model.parameters()])
    watch('state', lambda: ndgrad.get_rng_state())
    ndgrad.manual_seed(1)
    for i in range(3):
        call(f, x, t, 0.1, then='backward')
    ndgrad.manual_seed(1)
    model.eval()
    call(f, x, t, 0.1)
    model.train()
    call(f, x, t, 0.2)
""",
        "autocast and a gradient scaler": """
model = net()
opt = optim.SGD(model.parameters(), lr=0.1)
scaler = ndgrad.amp.GradScaler('cpu', init_scale=8.0)
def main(compile, call, change, watch):
    def step(x, t):
        opt.zero_grad()
        with ndgrad.autocast('cpu', dtype=ndgrad.bfloat16):
            p = model(x)
        loss = F.mse_loss(p.float(), t)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        return loss.detach()
    f = compile(step)
    watch('scale', lambda: scaler.get_scale())
    watch('parameters', lambda: list(model.parameters()))
    for i in range(4):
        call(f, x, t)
""",
        "averaged model and batch norm": """
model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3, momentum=None), nn.Linear(3, 1))
with ndgrad.no_grad():
    for p in model.parameters():
        p.fill_(0.3)
averaged = optim.swa_utils.AveragedModel(model)
opt = optim.SGD(model.parameters(), lr=0.1)
def main(compile, call, change, watch):
    def step(x, t):
        opt.zero_grad()
        loss = F.mse_loss(model(x), t)
        loss.backward()
        opt.step()
        averaged.update_parameters(model)
        return loss
    f = compile(step)
    watch('model', lambda: model.state_dict())
    watch('averaged', lambda: averaged.state_dict())
    for i in range(4):
        call(f, x, t)
""",
        "metric learning with a memory bank": """
bank, queue, pointer = ndgrad.zeros(4, 2), collections.deque(maxlen=3), 0
def main(compile, call, change, watch):
    def step(x):
        global pointer
        z = F.normalize(x, dim=1)
        sims = z @ bank.T
        n = len(z)
        for i in range(n):
            bank[(pointer + i) % 4] = z[i].detach()
        pointer = (pointer + n) % 4
        queue.append(z.detach().mean(0))
        return sims.max(), sum(queue)
    f = compile(step)
    watch('bank', lambda: (bank, pointer, list(queue)))
    for i in range(5):
        call(f, x[: 1 + i % 3])
""",
        "hooks that collect and change gradients": """
model, seen, norms = net(), [], {}
model[0].register_forward_hook(lambda m, a, out: seen.append(tuple(out.shape)))
for n, p in model.named_parameters():
    p.register_hook(lambda g, n=n: norms.__setitem__(n, g.norm().item()))
    p.register_hook(lambda g: g.clamp(-0.1, 0.1))
def main(compile, call, change, watch):
    f = compile(lambda x, t: F.mse_loss(model(x), t))
    watch('seen', lambda: (seen, norms))
    watch('grads', lambda: [p.grad for p in model.parameters()])
    for i in range(3):
        call(f, x, t, then='backward')
    handle = model[2].register_forward_pre_hook(lambda m, a: (a[0] * 2,))
    call(f, x, t, then='backward')
    handle.remove()
    call(f, x, t, then='backward')
""",
        "model made from a config that changes": """
@dataclasses.dataclass
class Config:
    act: str = 'tanh'
    scale: float = 1.0
    depth: int = 1
    residual: bool = False
class Net(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])
        with ndgrad.no_grad():
            for p in self.parameters():
                p.fill_(0.25)
    def forward(self, x):
        for layer in self.layers[: self.cfg.depth]:
            h = getattr(ndgrad, self.cfg.act)(layer(x)) * self.cfg.scale
            x = x + h if self.cfg.residual else h
        return x.sum()
def main(compile, call, change, watch):
    cfg = Config()
    model = Net(cfg)
    f = compile(model)
    watch('grads', lambda: [p.grad for p in model.parameters()])
    call(f, x, then='backward')
    cfg.act = 'sin'
    call(f, x, then='backward')
    cfg.depth, cfg.residual = 3, True
    call(f, x)
    cfg.scale = 2
    call(f, x)
    model.cfg = Config('cos', 0.5, 2)
    call(f, x, then='backward')
""",
        "curriculum: lengths, counts and a cache": """
@functools.lru_cache(None)
def mask(n):
    return ndgrad.tril(ndgrad.ones(n, n))
calls = collections.Counter()
def main(compile, call, change, watch):
    def attend(x):
        calls[len(x)] += 1
        s = x @ x.T
        s = s.masked_fill(mask(len(x)) == 0, float('-inf'))
        return s.softmax(-1) @ x
    f = compile(attend)
    watch('calls', lambda: dict(calls))
    watch('cache', lambda: mask.cache_info())
    for n in (3, 2, 3, 1, 2):
        call(f, x[:n])
""",
        "NumPy buffers and statistics": """
mean, count, rng = np.zeros(2), 0, np.random.default_rng(0)
def main(compile, call, change, watch):
    def normalise(x):
        global count
        a = x.numpy()
        mean[:] += (a.mean(0) - mean) / (count + 1)
        count += 1
        return x - ndgrad.from_numpy(mean.astype(np.float32))
    f = compile(normalise)
    watch('mean', lambda: (mean, count))
    for i in range(4):
        call(f, x + i)
""",
        "sampler with Python's random": """
data, order = list(range(6)), []
def main(compile, call, change, watch):
    def batch(x):
        i = random.randrange(3)
        order.append(i)
        random.shuffle(data)
        return x[i] * data[0]
    f = compile(batch)
    watch('order', lambda: (order, data))
    for _ in range(5):
        call(f, x)
    random.seed(3)
    call(f, x)
""",
        "errors in the middle of training": """
model = net()
opt = optim.SGD(model.parameters(), lr=0.1)
steps = []
def main(compile, call, change, watch):
    def step(x, t):
        steps.append(len(steps))
        opt.zero_grad()
        loss = F.mse_loss(model(x), t)
        if not ndgrad.isfinite(loss):
            raise FloatingPointError(f'loss is {loss.item()}')
        loss.backward()
        opt.step()
        return loss
    f = compile(step)
    watch('steps', lambda: steps)
    watch('parameters', lambda: list(model.parameters()))
    call(f, x, t)
    call(f, x, t)
    call(f, x * float('inf'), t)
    call(f, x, t[:, :0])
    call(f, x[:, :1], t)
    call(f, x, t)
""",
        "profile of a decorated step": """
spans, depth = [], 0
@contextlib.contextmanager
def span(name):
    global depth
    depth += 1
    spans.append((name, depth))
    try:
        yield depth
    finally:
        depth -= 1
def traced(fn):
    @functools.wraps(fn)
    def run(*args):
        with span(fn.__name__):
            return fn(*args)
    run.calls = 0
    return run
@traced
def forward(x, w):
    return (x @ w).tanh()
def main(compile, call, change, watch):
    w = ndgrad.ones(2, 1, requires_grad=True)
    @traced
    def step(x):
        step.calls += 1
        with span('loss') as d:
            return forward(x, w).sum() * d
    f = compile(step)
    watch('spans', lambda: (spans, depth, step.calls))
    for _ in range(4):
        call(f, x, then='backward')
""",
    }.items()
}
