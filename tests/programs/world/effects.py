"""Kinds of effects that programs have, beside the assignments to the places of `places`.

`$` in a line is a number read of a tensor, a tensor, or a constant (`Kind.stored` says which sorts are drawn).
"""

# ruff: noqa: E501  (a line is a kind)

from __future__ import annotations

from tests.programs.world.kinds import Kind

SEQUENCES = [
    Kind("list.append", local="log# = []", lines=("log#.append($)",), watch="log#", also=("log#.clear()",)),
    Kind("list.append in a loop", module="log# = []", lines=("for i in range(2): log#.append(i)",), watch="log#"),
    Kind("list.extend", module="log# = []", lines=("log#.extend([$, 1.0])", "log# += [$]"), names="log#", watch="log#"),
    Kind("list.insert and pop", module="log# = [1.0, 2.0]", lines=("log#.insert(0, $)", "y = y + log#.pop() if log# else y", "log#.remove(2.0)", "del log#[0]"), watch="log#"),
    Kind("list.sort", module="log# = [3.0, 1.0, 2.0]", lines=("log#.sort(); y = y * log#[0]", "log#.reverse(); y = y * log#[0]"), also=("log#.append(0.5)",), watch="log#"),
    Kind("list item", module="log# = [1.0, 2.0]", lines=("log#[0] = $", "log#[:] = [$]", "log#[0] += 1", "log#[1:] = []"), watch="log#"),
    Kind("dict item", module="table# = {}", lines=("table#['a'] = $", "table#[len(table#)] = $", "table#['n'] = table#.get('n', 0) + 1"), watch="table#"),
    Kind("dict.update", module="table# = {'a': 1.0}", lines=("table#.update(b=$)", "table#.setdefault('b', $)", "table#.setdefault('l', []).append($)", "table# |= {'c': $}"), names="table#", watch="table#"),
    Kind("dict deletion", module="table# = {'a': 1.0, 'b': 2.0}", lines=("table#.pop('a', None)", "del table#['a']", "table#.clear()", "y = y + table#.popitem()[1]"), also=("table#['a'] = 3.0",),
         watch="table#"),
    Kind("set.add", module="items# = set()", lines=("items#.add($)", "items#.add(len(items#))", "items#.discard(1); items#.add(1)", "items# |= {2.0}"), stored="number", names="items#", watch="sorted(items#, key=lambda v: (float(v), str(type(v))))"),
    Kind("deque.appendleft", module="items# = collections.deque(maxlen=2)", lines=("items#.appendleft($)", "items#.append($)", "items#.rotate(1); items#.append(len(items#))"), watch="list(items#)"),
    Kind("Counter", module="count# = collections.Counter()", lines=("count#['a'] += 1", "count#.update(['a', 'b'])", "count#.update(a=2)"), watch="dict(count#)"),
    Kind("defaultdict", module="table# = collections.defaultdict(list)", lines=("table#['a'].append($)", "table#[len(table#)].append(1)"), watch="dict(table#)"),
    Kind("tuple grown", local="items# = ()", lines=("items# = (*items#, $)", "items# += ($,)"), names="items#", watch="items#"),
    Kind("text grown", local="text# = ''", lines=("text# += 'a'", "text# = f'{text#}{len(text#)}'", "text# += f'{$}'"), names="text#", watch="text#", stored="number"),
    Kind("heap", module="heap# = []", lines=("heapq.heappush(heap#, $)", "heapq.heappush(heap#, len(heap#))"), stored="number", watch="heap#"),
    Kind("array.array grown", module="items# = array.array('d')", lines=("items#.append($)", "items#.append(1.0)"), stored="number", watch="list(items#)"),
    Kind("bytearray grown", module="items# = bytearray()", lines=("items#.append(len(items#))", "items# += b'a'"), names="items#", watch="bytes(items#)"),
    Kind("NumPy array written", module="array# = np.zeros(3)", lines=("array#[0] += 1", "array#[0] = $", "array#[1:] = 2.0", "np.add(array#, 1, out=array#)", "array#[:2] = y.detach().numpy()"), stored="number",
         watch="array#"),
    Kind("NumPy array of objects written", module="array# = np.zeros(2, dtype=object)", lines=("array#[0] = $",), watch="list(array#)"),
    Kind("list inside a tuple", module="pair# = ([], {})", lines=("pair#[0].append($)", "pair#[1]['a'] = $"), watch="pair#"),
    Kind("UserList.append", module="items# = collections.UserList()", lines=("items#.append($)",), watch="items#.data"),
    Kind("UserDict item", module="table# = collections.UserDict()", lines=("table#['a'] = $", "table#[len(table#)] = 1"), watch="table#.data"),
    Kind("ChainMap item", module="table# = collections.ChainMap({}, {'a': 1.0})", lines=("table#['a'] = $", "table#['a'] += 1"), watch="dict(table#)"),
    Kind("subclass of list", module="class Log#(list):\n    def add(self, v):\n        self.append(v)\nlog# = Log#()", lines=("log#.add($)",), watch="list(log#)"),
    Kind("subclass of dict", module="class Table#(dict):\n    writes = 0\n    def __setitem__(self, k, v):\n        self.writes += 1\n        super().__setitem__(k, v)\ntable# = Table#()", lines=("table#['a'] = $",),
         watch="dict(table#), table#.writes"),
]  # fmt: skip

NUMBERS = [
    Kind("counter, nonlocal", local="count# = 0", lines=("count# += 1", "count# += 1; y = y * count#"), names="count#", watch="count#"),
    Kind("counter, global", module="count# = 0", lines=("count# += 1", "count# += 1; y = y / count#"), names="count#", watch="count#"),
    Kind("counter, attribute", module="class State#:\n    count = 0\nstate# = State#()", lines=("state#.count += 1", "State#.count += 1", "state#.count += 1; y = y * state#.count"), watch="state#.count, State#.count"),
    Kind("counter, dict", module="state# = {'n': 0}", lines=("state#['n'] += 1", "state#['n'] += 1; y = y + state#['n']"), watch="state#"),
    Kind("counter, list", local="state# = [0]", lines=("state#[0] += 1",), watch="state#"),
    Kind("counter, function attribute", module="def helper#():\n    helper#.calls += 1\nhelper#.calls = 0", lines=("helper#()",), watch="helper#.calls"),
    Kind("counter, itertools", module="count# = itertools.count()", lines=("next(count#)", "y = y + next(count#)"), watch="repr(count#)"),
    Kind("total of item()", module="total# = {'loss': 0.0, 'n': 0}", lines=("total#['loss'] += y.sum().item(); total#['n'] += 1", "total#['loss'] += float(y.sum())", "total#['loss'] += $"), stored="number", watch="total#",
         also=("total#['loss'] = 0.0",)),
    Kind("running average", local="avg# = 0.0", lines=("avg# = 0.9 * avg# + 0.1 * $", "avg# = 0.9 * avg# + 0.1 * y.sum().item()"), stored="number", names="avg#", watch="avg#"),
    Kind("running average, attribute", module="class Meter#:\n    avg = 0.0\n    n = 0\n    def update(self, v):\n        self.n += 1\n        self.avg += (v - self.avg) / self.n\nmeter# = Meter#()",
         lines=("meter#.update($)", "meter#.update(y.sum().item())"), stored="number", watch="vars(meter#)"),
    Kind("running average, tensor", local="avg# = ndgrad.zeros(())", lines=("avg# = 0.9 * avg# + 0.1 * y.sum().detach()", "avg#.mul_(0.9).add_(y.sum().detach(), alpha=0.1)"), names="avg#", watch="avg#"),
    Kind("best so far", local="best# = float('inf')", lines=("best# = min(best#, y.sum().item())", "best# = min(best#, $)", "if y.sum().item() < best#: best# = y.sum().item()"), stored="number", names="best#", watch="best#"),
    Kind("best so far, global", module="best# = -1e9", lines=("best# = max(best#, y.sum().item())", "best# = max(best#, $)"), stored="number", names="best#", watch="best#"),
    Kind("previous value", local="prev# = 0.0", lines=("prev# = $", "y = y + prev#; prev# = y.sum().item()"), names="prev#", watch="prev#"),
    Kind("previous tensor", local="prev# = ndgrad.ones(2)", lines=("y = y + prev#; prev# = y.detach()", "prev# = y.detach()", "y = y * prev#; prev# = x"), names="prev#", watch="prev#"),
    Kind("hidden state with its graph", local="h# = ndgrad.ones(2)", lines=("h# = h# * w + x; y = y + h#",), names="h#", watch="h#", also=("h# = h#.detach()",)),
    Kind("patience", module="class Stop#:\n    best = None\n    bad = 0\nstop# = Stop#()", lines=("""
            loss = y.sum().item()
            if stop#.best is None or loss < stop#.best:
                stop#.best, stop#.bad = loss, 0
            else:
                stop#.bad += 1""",), watch="stop#.best, stop#.bad"),
    Kind("flag set once", local="seen# = False", lines=("if not seen#: y = y * 2; seen# = True", "seen# = True"), names="seen#", watch="seen#"),
    Kind("number kept and compared", local="kept# = None", lines=("kept# = y.sum().item() > 0", "kept# = int(y.sum().item())", "kept# = round(y.sum().item(), 2)", "kept# = y.argmax().item()"), names="kept#", watch="kept#"),
    Kind("numbers of a row", module="rows# = []", lines=("rows#.append(y.tolist())", "rows#.append([v.item() for v in y])", "rows#.append((y.shape, y.dtype is ndgrad.float32))", "rows#.append(y.detach().numpy().copy())"),
         watch="rows#"),
    Kind("number in a nested object", module="class A#:\n    pass\na# = A#()\na#.b = A#()\na#.b.c = {}", lines=("a#.b.c['v'] = $", "a#.b.v = $"), watch="vars(a#.b)"),
]  # fmt: skip

ATTRIBUTES = [
    Kind("attribute created", module="class Config#:\n    pass\ncfg# = Config#()", lines=("cfg#.last = $", "setattr(cfg#, 'n' + str(len(vars(cfg#))), $)", "Config#.last = $", "vars(cfg#)['last'] = $"), watch="vars(cfg#), getattr(Config#, 'last', None)"),
    Kind("attribute deleted", module="class Config#:\n    pass\ncfg# = Config#()\ncfg#.a = 1.0", lines=("del cfg#.a", "cfg#.__dict__.pop('a', None)", "delattr(cfg#, 'a') if hasattr(cfg#, 'a') else None"), also=("cfg#.a = 2.0",),
         watch="vars(cfg#)"),
    Kind("attribute of a namespace", module="cfg# = types.SimpleNamespace()", lines=("cfg#.last = $", "cfg#.n = getattr(cfg#, 'n', 0) + 1"), watch="vars(cfg#)"),
    Kind("attribute of argparse.Namespace", module="cfg# = argparse.Namespace(n=0)", lines=("cfg#.n += 1", "cfg#.last = $"), watch="vars(cfg#)"),
    Kind("attribute of a module", module="other# = module('other#', 'n = 0')", lines=("other#.n += 1", "other#.last = $"), watch="other#.n, getattr(other#, 'last', None)"),
    Kind("attribute of a function", module="def helper#(v):\n    return v", lines=("helper#.last = $", "helper#.n = getattr(helper#, 'n', 0) + 1"), watch="vars(helper#)"),
    Kind("slot written", module="class Config#:\n    __slots__ = ('n', 'last')\ncfg# = Config#()\ncfg#.n = 0", lines=("cfg#.n += 1", "cfg#.last = $"), watch="cfg#.n, getattr(cfg#, 'last', None)"),
    Kind("property written", module="class Config#:\n    def __init__(self):\n        self.log = []\n    @property\n    def v(self):\n        return self.log[-1]\n    @v.setter\n    def v(self, value):\n        self.log.append(value)\ncfg# = Config#()",
         lines=("cfg#.v = $",), watch="cfg#.log"),
    Kind("__setattr__", module="class Config#:\n    def __setattr__(self, k, v):\n        self.__dict__.setdefault('writes', []).append(k)\n        self.__dict__[k] = v\ncfg# = Config#()", lines=("cfg#.v = $",), watch="vars(cfg#)"),
    Kind("__setitem__", module="class Table#:\n    def __init__(self):\n        self.rows = []\n    def __setitem__(self, k, v):\n        self.rows.append((k, v))\ntable# = Table#()", lines=("table#['a'] = $",), watch="table#.rows"),
    Kind("__iadd__", module="class Total#:\n    v = 0.0\n    def __iadd__(self, other):\n        self.v = self.v + other\n        return self\ntotal# = Total#()", lines=("total# += $",), names="total#", watch="vars(total#)"),
    Kind("__del__", module="gone# = []\nclass Temp#:\n    def __del__(self):\n        gone#.append(1)", lines=("Temp#()",), watch="gone#"),
    Kind("attribute of an argument", lines=("x.note = $", "x.n = getattr(x, 'n', 0) + 1"), stored="number", watch="vars(x)"),
    Kind("attribute of a result", lines=("y = y * 1.0; y.note = 3.0", "y = y * 1.0; y.tag = 'a'", "y = y * 1.0; y.extra = x"), watch="0"),
    Kind("attribute of a captured tensor", module="t# = ndgrad.ones(2)", lines=("t#.note = $", "t#.n = getattr(t#, 'n', 0) + 1"), stored="number", watch="vars(t#)"),
    Kind("dict argument", lines=("cfg.last = $", "cfg.n = getattr(cfg, 'n', 0) + 1"), watch="vars(cfg)"),
    Kind("list argument", lines=("ks.append($)", "ks[0] += 1.0"), watch="ks"),
    Kind("NumPy argument", lines=("data[0] += 1.0", "data[1] = 3.0"), watch="data"),
]  # fmt: skip

OUTPUT = [
    Kind("print", lines=("print('step')", "print('step', count#)", "print(y.sum().item())", "print(y.shape)", "sys.stdout.write('a')", "print('e', file=sys.stderr)"), module="count# = 1", put="count# = $", names="count#",
         is_writable=False, watch="count#"),
    Kind("print in a closure", local="show# = print", lines=("show#('step')", "show#(len(y))"), watch="0"),
    Kind("logger of the module", module="log# = logging.getLogger('program#')", lines=("log#.warning('step %d', 1)", "log#.error('loss %s', y.sum().item())", "logging.warning('root')", "log#.log(logging.ERROR, 'x')"), watch="0"),
    Kind("logger in a closure", local="log# = logging.getLogger('program#')", lines=("log#.warning('step')", "log#.error('size %d', len(y))"), watch="0"),
    Kind("logger in an attribute", module="class Trainer#:\n    def __init__(self):\n        self.log = logging.getLogger('program#')\ntrainer# = Trainer#()", lines=("trainer#.log.warning('step')",), watch="0"),
    Kind("method of a logger", local="warn# = logging.getLogger('program#').warning", lines=("warn#('step')",), watch="0"),
    Kind("logger adapter", module="log# = logging.LoggerAdapter(logging.getLogger('program#'), {})", lines=("log#.warning('step')",), watch="0"),
    Kind("handler of a logger", module="class Sink#(logging.Handler):\n    def __init__(self):\n        super().__init__()\n        self.seen = []\n    def emit(self, record):\n        self.seen.append(record.getMessage())\nsink# = Sink#()\nlog# = logging.getLogger('program#')\nlog#.addHandler(sink#)",
         lines=("log#.warning('step')",), watch="sink#.seen"),
    Kind("warnings.warn", lines=("warnings.warn('careful')", "warnings.warn('old', DeprecationWarning, stacklevel=2)", "warnings.warn(f'size {len(y)}')"), watch="0"),
    Kind("warn in a closure", local="warn# = warnings.warn", lines=("warn#('careful')",), watch="0"),
    Kind("warnings recorded inside", module="caught# = []", lines=("""
            with warnings.catch_warnings(record=True) as found:
                warnings.simplefilter('always')
                warnings.warn('careful')
            caught#.append(len(found))""",), watch="caught#"),
    Kind("file written", lines=("open('out#.txt', 'a').write('a')", "pathlib.Path('out#.txt').write_text(str(len(y)))", "with open('out#.txt', 'a') as file: file.write('b')"),
         watch="pathlib.Path('out#.txt').read_text() if os.path.exists('out#.txt') else ''"),
    Kind("open file written", module="file# = open('out#.txt', 'w')", lines=("file#.write('a'); file#.flush()", "print('a', file=file#, flush=True)"), watch="pathlib.Path('out#.txt').read_text()"),
    Kind("method of an open file", module="file# = open('out#.txt', 'w', buffering=1)\nwrite# = file#.write", lines=("write#('a\\n')",), watch="pathlib.Path('out#.txt').read_text()"),
    Kind("csv writer", module="rows# = io.StringIO()\nwriter# = csv.writer(rows#)", lines=("writer#.writerow([1, 2])", "writer#.writerow([len(y), 'a'])", "writer#.writerow([y.sum().item()])"), watch="rows#.getvalue()"),
    Kind("StringIO", module="text# = io.StringIO()", lines=("text#.write('a')", "print('a', file=text#)"), watch="text#.getvalue()"),
    Kind("NumPy file written", lines=("np.save('out#.npy', np.ones(2))", "np.save('out#.npy', y.detach().numpy())"), watch="np.load('out#.npy') if os.path.exists('out#.npy') else 0"),
    Kind("JSON file written", lines=("json.dump({'n': len(y)}, open('out#.json', 'a'))", "pathlib.Path('out#.json').write_text(json.dumps([1]))"), watch="pathlib.Path('out#.json').read_text() if os.path.exists('out#.json') else ''"),
    Kind("checkpoint written", module="p# = nn.Parameter(ndgrad.ones(2))", lines=("ndgrad.save({'p': p#, 'n': 1}, 'out#.pt')", "ndgrad.save(y.detach(), 'out#.pt')"), watch="ndgrad.load('out#.pt') if os.path.exists('out#.pt') else 0"),
    Kind("folder made", lines=("os.makedirs('dir#', exist_ok=True)", "os.path.isdir('dir#') or os.mkdir('dir#')", "tempfile.mkstemp(dir='.', prefix='tmp#')"), watch="len(glob.glob('*#*'))"),
    Kind("queue.put", module="queue# = queue.Queue()", lines=("queue#.put($)", "queue#.put_nowait(1)"), watch="list(queue#.queue)"),
    Kind("queue.SimpleQueue", module="queue# = queue.SimpleQueue()", lines=("queue#.put($)",), watch="queue#.qsize()"),
    Kind("database", module="db# = sqlite3.connect(':memory:')\ndb#.execute('create table t (v)')", lines=("db#.execute('insert into t values (1)')", "db#.execute('insert into t values (?)', (len(y),))"), watch="db#.execute('select count(*) from t').fetchone()"),
    Kind("event set", module="event# = threading.Event()", lines=("event#.set()",), also=("event#.clear()",), watch="event#.is_set()"),
    Kind("semaphore", module="sem# = threading.Semaphore(9)", lines=("sem#.acquire()",), watch="sem#._value"),
    Kind("lock used", module="lock# = threading.Lock()\nn# = 0", lines=("with lock#: n# += 1", "with lock#: y = y * 2"), names="n#", watch="n#, lock#.locked()"),
    Kind("sleep", lines=("time.sleep(0)", "time.sleep(0.0); y = y * 2"), watch="0"),
    Kind("stamps", module="stamps# = []", lines=("stamps#.append(time.perf_counter_ns())",), watch="len(set(stamps#))"),
    Kind("thread started", module="done# = []", lines=("t = threading.Thread(target=done#.append, args=(1,)); t.start(); t.join()",), watch="done#"),
    Kind("subprocess", module="done# = []", lines=("done#.append(os.getpid() > 0)",), watch="done#"),
    Kind("environment variable set", lines=("os.environ['OUT#'] = 'a'", "os.environ['OUT#'] = os.environ.get('OUT#', '') + 'a'", "os.environ.setdefault('OUT#', 'b')", "os.putenv('OUT#', 'b')"), also=("os.environ.pop('OUT#', None)",),
         watch="os.environ.get('OUT#')"),
    Kind("sys.path", lines=("sys.path.append('extra#')",), watch="sys.path.count('extra#')"),
    Kind("sys.modules", lines=("module('made#', 'v = 1')", "sys.modules.setdefault('made#', sys)"), also=("sys.modules.pop('made#', None)",), watch="'made#' in sys.modules"),
    Kind("atexit-like registry", module="handlers# = []\ndef register#(fn):\n    handlers#.append(fn)\n    return fn", lines=("register#(lambda: 1)", "@register#\ndef handler(): return 1"), watch="len(handlers#)"),
    Kind("random seed", lines=("random.seed(3)", "random.random()", "random.shuffle(order#)"), module="order# = [1, 2, 3]", watch="order#, random.getstate()"),
    Kind("NumPy seed", lines=("np.random.seed(3)", "np.random.rand()", "np.random.shuffle(order#)"), module="order# = [1, 2, 3]", watch="order#, np.random.get_state()[1].sum(), np.random.get_state()[2]"),
    Kind("ndgrad seed", lines=("ndgrad.manual_seed(3)", "ndgrad.rand(2)", "y = y + ndgrad.rand(2)", "y = y * ndgrad.bernoulli(ndgrad.full((2,), 0.5))"), watch="ndgrad.get_rng_state()"),
    Kind("default dtype set", lines=("ndgrad.set_default_dtype(ndgrad.float64)",), also=("ndgrad.set_default_dtype(ndgrad.float32)",), watch="str(ndgrad.get_default_dtype())"),
    Kind("grad mode set", lines=("ndgrad.set_grad_enabled(False)",), also=("ndgrad.set_grad_enabled(True)",), watch="ndgrad.is_grad_enabled()"),
    Kind("np.seterr", lines=("np.seterr(divide='raise')",), also=("np.seterr(divide='warn')",), watch="np.geterr()"),
    Kind("warning filter added", lines=("warnings.simplefilter('ignore')", "warnings.filterwarnings('error', 'x')"), also=("warnings.resetwarnings()",), watch="len(warnings.filters)"),
    Kind("logging level set", lines=("logging.getLogger('program#').setLevel(logging.ERROR)",), also=("logging.getLogger('program#').setLevel(logging.INFO)",), watch="logging.getLogger('program#').level"),
]  # fmt: skip

CALLS = [
    Kind("captured list.append", local="log# = []; keep# = log#.append", lines=("keep#($)", "keep#(1.0)"), watch="log#"),
    Kind("captured dict.update", local="table# = {}; put# = table#.update", lines=("put#(a=$)",), watch="table#"),
    Kind("captured set.add", module="items# = set()\nadd# = items#.add", lines=("add#(len(items#))",), watch="sorted(items#, key=lambda v: (float(v), str(type(v))))"),
    Kind("captured deque.append", module="items# = collections.deque()\nadd# = items#.append", lines=("add#(1.0)", "add#($)"), watch="list(items#)"),
    Kind("captured queue.put", local="queue# = queue.Queue(); put# = queue#.put", lines=("put#($)",), watch="list(queue#.queue)"),
    Kind("captured bound method", module="class Log#:\n    def __init__(self):\n        self.rows = []\n    def add(self, v):\n        self.rows.append(v)\nlog# = Log#()\nadd# = log#.add", lines=("add#($)",), watch="log#.rows"),
    Kind("partial with an effect", module="log# = []\nadd# = functools.partial(log#.insert, 0)", lines=("add#($)",), watch="log#"),
    Kind("map with an effect", module="log# = []", lines=("list(map(log#.append, [1.0, 2.0]))", "any(map(log#.append, [1.0]))"), watch="log#"),
    Kind("operator.setitem", module="table# = {}", lines=("operator.setitem(table#, 'a', $)", "operator.setitem(table#, len(table#), 1)"), watch="table#"),
    Kind("exec with an effect", module="log# = []", lines=("exec('log#.append(1)')", "eval('log#.append(1)')"), watch="log#"),
    Kind("callback list", module="log# = []\ncallbacks# = [log#.append]", lines=("for callback in callbacks#: callback($)",), also=("callbacks#.append(log#.append)",), watch="log#"),
    Kind("callback by a dict", module="log# = []\ntable# = {'add': log#.append}", lines=("table#['add']($)",), watch="log#"),
    Kind("decorator that counts", module="calls# = {'n': 0}\ndef counted#(fn):\n    @functools.wraps(fn)\n    def run(*args):\n        calls#['n'] += 1\n        return fn(*args)\n    return run\n@counted#\ndef base#(v):\n    return v * 2", lines=("y = base#(y)",), watch="calls#"),
    Kind("context manager with an effect", module="log# = []\n@contextlib.contextmanager\ndef span#(name):\n    log#.append('in')\n    try:\n        yield\n    finally:\n        log#.append('out')", lines=("with span#('a'): y = y * 2",), watch="log#"),
    Kind("gradient kept outside", module="kept# = {}", lines=(
         "m = ndgrad.stack([x, x * 2.0]).detach().requires_grad_(); kept#['g'] = ndgrad.autograd.grad((m.T @ m).sin().sum(), m)[0]", "m = ndgrad.stack([x, x * 2.0]).detach(); kept#['g'] = ndgrad.func.grad(lambda v: (v.T * v.sin().T).sum())(m)",
         "m = ndgrad.stack([x, x * 2.0]).detach().T.requires_grad_(); g, = ndgrad.autograd.grad((m.sin() * m).sum(), m); kept#['g'] = g * 2.0", "m = ndgrad.stack([x, x * 2.0]).detach().requires_grad_(); kept#['g'] = ndgrad.autograd.grad(m.T.sum(0).sum(), m)[0].T",
         "m = ndgrad.stack([x, x * 2.0]).detach().requires_grad_(); g, = ndgrad.autograd.grad((m.T @ m).sin().sum(), m, create_graph=True); kept#['g'] = g.detach()", "m = ndgrad.stack([x, x * 2.0]).detach(); kept#['g'] = ndgrad.func.jacrev(lambda v: v.T.sin())(m)",
         "m = ndgrad.stack([x, x * 2.0]).detach().requires_grad_(); g, = ndgrad.autograd.grad((m.T @ m).sin().sum(), m); v = g.reshape(-1); v += 1; kept#['g'] = g",
         "h = ndgrad.stack([x, x * 2.0]).detach().requires_grad_().T * 1.0; h.register_hook(lambda g: kept#.__setitem__('g', g)); h.sin().sum().backward()"), watch="kept#"),
    Kind("cache entry", module="@functools.cache\ndef cached#(k):\n    return k * 2.0", lines=("y = y * cached#(len(y))", "cached#($)"), stored="number", watch="cached#.cache_info()"),
    Kind("cache of the user's", module="memo# = {}", lines=("y = y * memo#.setdefault(len(y), 2.0)", "if len(y) not in memo#: memo#[len(y)] = $"), watch="memo#"),
    Kind("cached property made", module="class Config#:\n    n = 0\n    @functools.cached_property\n    def v(self):\n        Config#.n += 1\n        return 2.0\ncfg# = Config#()", lines=("y = y * cfg#.v",), also=("vars(cfg#).clear()",), watch="vars(cfg#), Config#.n"),
    Kind("generator advanced", module="def gen#():\n    n = 0\n    while True:\n        n += 1\n        yield n\ng# = gen#()", lines=("next(g#)", "y = y * next(g#)", "g#.send(None)"), watch="g#.gi_frame.f_locals.get('n')"),
    Kind("iterator advanced", module="it# = iter(range(9))", lines=("y = y + next(it#)", "next(it#)"), watch="it#.__length_hint__()"),
    Kind("enumerate advanced", module="it# = enumerate('abcdefgh')\nlast# = None", lines=("last# = next(it#)",), names="last#", watch="last#"),
    Kind("ContextVar.set", module="var# = contextvars.ContextVar('var#', default=0)", lines=("var#.set(var#.get() + 1)", "var#.set($)"), stored="number", watch="var#.get()"),
    Kind("thread local set", module="local# = threading.local()\nlocal#.n = 0", lines=("local#.n += 1", "local#.last = $"), watch="vars(local#)"),
    Kind("weak set", module="class Item#:\n    pass\nseen# = weakref.WeakSet()\nitem# = Item#()", lines=("seen#.add(item#)",), also=("seen#.clear()",), watch="len(seen#)"),
    Kind("class made inside", module="class Base#:\n    pass\nkept# = []", lines=("kept#.append(type('C', (Base#,), {}))",), watch="__import__('gc').collect() * 0 + len(Base#.__subclasses__())"),
    Kind("class changed", module="class Config#:\n    n = 0\n    def v(self):\n        return 1.0\ncfg# = Config#()", lines=("Config#.n += 1", "Config#.v = lambda self: 2.0", "type(cfg#).n = $", "cfg#.__class__.extra = 1"), stored="number", watch="Config#.n, cfg#.v(), hasattr(Config#, 'extra')"),
    Kind("__class__ assigned", module="class A#:\n    pass\nclass B#:\n    pass\ncfg# = A#()", lines=("cfg#.__class__ = B#",), also=("cfg#.__class__ = A#",), watch="type(cfg#).__name__"),
    Kind("ABC registered", module="class Base#(abc.ABC):\n    pass\nclass Thing#:\n    pass", lines=("Base#.register(Thing#)",), watch="issubclass(Thing#, Base#)"),
    Kind("singledispatch registered", module="@functools.singledispatch\ndef show#(v):\n    return 0", lines=("show#.register(int, lambda v: 1)",), watch="show#(3)"),
    Kind("function replaced", module="def helper#():\n    return 1.0", lines=("helper#.__defaults__ = None; helper# = lambda: 2.0", "globals()['helper#'] = lambda: 3.0"), names="helper#", watch="helper#()"),
    Kind("ndgrad function replaced", lines=("ndgrad.sinh = lambda v: v * 2",), watch="float(ndgrad.sinh(ndgrad.tensor(1.0)))"),
    Kind("globals() written", lines=("globals()['made#'] = $", "globals()['made#'] = globals().get('made#', 0) + 1"), watch="globals().get('made#')"),
    Kind("sys attribute written", lines=("sys.made# = $", "sys.made# = getattr(sys, 'made#', 0) + 1"), stored="number", watch="getattr(sys, 'made#', None)"),
    Kind("effect, then an exception caught", module="log# = []", lines=("""
            try:
                log#.append(1)
                raise ValueError('inside')
            except ValueError as error:
                log#.append(str(error))""", """
            try:
                log#.append(y.sum().item())
                ndgrad.ones(3) + ndgrad.ones(2)
            except RuntimeError:
                log#.append('size')
            finally:
                log#.append('end')"""), watch="log#"),
    Kind("effect, then an exception raised", module="log# = []\nlimit# = 9", lines=("log#.append(1)\nif len(log#) > limit#: raise ValueError(f'too many: {len(log#)}')", "log#.append(1)\nassert len(log#) < limit#, 'limit'",
         "log#.append($)\nif limit# < 3: y = y + ndgrad.ones(7)"), put="limit# = $", pool=("0", "1", "2", "9"), names="limit#", is_writable=False, watch="log#"),
    Kind("exception decided by a value", module="log# = []", lines=("log#.append(1)\nif y.sum() < 0: raise ValueError('negative')", "assert y.sum().item() < 1e6, 'large'; log#.append(1)"), watch="log#"),
]  # fmt: skip

MODEL = "model# = nn.Linear(2, 2)\nwith ndgrad.no_grad():\n    [p.fill_(0.5) for p in model#.parameters()]\n"
TENSORS = [
    Kind("argument written in place", lines=("x.add_(1.0) if not x.requires_grad else None", "x[0] = 2.0", "x.data.mul_(2.0)", "with ndgrad.no_grad(): x.mul_(2.0)"), watch="x"),
    Kind("view of an argument written", lines=("v = x[:1]; v += 1.0", "x.view(-1)[0] = 3.0", "x[::2].zero_()"), watch="x"),
    Kind("captured tensor written", module="t# = ndgrad.zeros(2)", lines=("t#.add_(1.0)", "t#[0] += 1", "t#.copy_(y.detach())", "t# += y.detach()", "t#.fill_(len(y))"), names="t#", watch="t#"),
    Kind("view of a captured tensor written", module="base# = ndgrad.zeros(2, 2)\nrow# = base#[0]", lines=("row#.add_(1.0)", "base#[1] = y.detach()", "base#.T[0].add_(1.0)"), watch="base#, row#"),
    Kind("tensor over a NumPy array written", module="array# = np.zeros(2, dtype=np.float32)\nt# = ndgrad.from_numpy(array#)", lines=("t#.add_(1.0)", "t#.copy_(y.detach())"), watch="array#"),
    Kind("tensor of integers written", module="t# = ndgrad.zeros(2, dtype=ndgrad.int64)", lines=("t#.add_(1)", "t# += y.detach()", "t#.add_(y.detach())", "t#[0] = y.argmax()", "t#.mul_(1.5)"), names="t#", watch="t#"),
    Kind("tensor kept in a list", module="kept# = []", lines=("kept#.append(y.detach())", "kept#.append(y)", "kept#.append(y.sum())", "kept#[:] = [y.detach()]"), watch="kept#"),
    Kind("tensor kept in a dict", module="kept# = {'t': ndgrad.zeros(2)}", lines=("kept#['t'] = y.detach()", "kept#['t'] = kept#['t'] + y.detach()", "kept#['t'] = x"), watch="kept#"),
    Kind("tensor kept in an attribute", module="class State#:\n    h = ndgrad.zeros(2)\nstate# = State#()", lines=("state#.h = y.detach()", "State#.h = y.detach()", "state#.h = state#.h * 0.5 + y.detach()"), watch="state#.h, State#.h"),
    Kind("tensor kept in two places", module="kept# = {'a': ndgrad.zeros(2), 'b': ndgrad.zeros(2)}", lines=("kept#['a'] = kept#['b'] = y.detach()", "kept#['a'], kept#['b'] = kept#['b'], kept#['a']"), watch="kept#, kept#['a'] is kept#['b']"),
    Kind("backward inside", module="p# = ndgrad.ones(2, requires_grad=True)", lines=("(p# * x.detach()).sum().backward()", "(p# * y.detach()).sum().backward(); y = y + p#.grad", "p#.grad = None; (p# * p#).sum().backward()"), watch="p#"),
    Kind("backward through the argument", lines=("(w * 2).sum().backward() if w.requires_grad else None",), watch="w"),
    Kind("grad inside", lines=("y = y + ndgrad.autograd.grad((w * w).sum(), w)[0]",), watch="w"),
    Kind("zero_grad", module="p# = ndgrad.ones(2, requires_grad=True)\np#.grad = ndgrad.ones(2)", lines=("p#.grad.zero_()", "p#.grad = None", "p#.grad = y.detach()", "p#.grad.mul_(2.0)"), also=("p#.grad = ndgrad.ones(2)",), watch="p#"),
    Kind("optimizer step", module="p# = nn.Parameter(ndgrad.ones(2))\nopt# = optim.SGD([p#], lr=0.1, momentum=0.9)", lines=("opt#.zero_grad(); (p# * x.detach()).sum().backward(); opt#.step()", "opt#.zero_grad(set_to_none=False); (p# * p#).sum().backward(); opt#.step(); y = y + p#.detach()"),
         also=("opt#.param_groups[0]['lr'] = 0.2",), watch="p#, opt#.state_dict()"),
    Kind("Adam step", module="p# = nn.Parameter(ndgrad.ones(2))\nopt# = optim.AdamW([p#], lr=0.1)", lines=("opt#.zero_grad(); (p# * x.detach()).sum().backward(); opt#.step()",), also=("opt#.param_groups[0]['lr'] = 0.2",), watch="p#, opt#.state_dict()"),
    Kind("schedule step inside", module="p# = nn.Parameter(ndgrad.ones(2))\nopt# = optim.SGD([p#], lr=0.1)\nsched# = optim.lr_scheduler.StepLR(opt#, 1, 0.5)", lines=("opt#.zero_grad(); (p# * x.detach()).sum().backward(); opt#.step(); sched#.step()", "opt#.step(); sched#.step()"),
         watch="p#, opt#.param_groups[0]['lr'], sched#.last_epoch"),
    Kind("gradient clipping", module="p# = nn.Parameter(ndgrad.ones(2))\nnorms# = []", lines=("p#.grad = None; (p# * x.detach() * 9).sum().backward(); norms#.append(nn.utils.clip_grad_norm_([p#], 1.0))", "p#.grad = None; (p# * x.detach() * 9).sum().backward(); nn.utils.clip_grad_value_([p#], 0.5)"),
         watch="p#, norms#"),
    Kind("moving average of parameters", module="p# = nn.Parameter(ndgrad.ones(2))\nema# = ndgrad.ones(2)", lines=("ema#.lerp_(p#.detach() * len(y), 0.5)", "with ndgrad.no_grad(): p#.add_(1.0); ema#.mul_(0.9).add_(p#, alpha=0.1)"), watch="p#, ema#"),
    Kind("buffer updated", module="model# = nn.Module()\nmodel#.register_buffer('n', ndgrad.zeros(()))", lines=("model#.n += 1", "model#.n.add_(1)", "model#.n = model#.n + y.sum().detach()"), watch="model#.n"),
    Kind("batch norm", module="bn# = nn.BatchNorm1d(2)", lines=("y = y + bn#(ndgrad.stack([x, x * 2])).sum()",), also=("bn#.eval()", "bn#.train()"), watch="bn#.running_mean, bn#.running_var, bn#.num_batches_tracked"),
    Kind("batch norm with a cumulative average", module="bn# = nn.BatchNorm1d(2, momentum=None)", lines=("y = y + bn#(ndgrad.stack([x, x * 2])).sum()",), watch="bn#.running_mean, bn#.num_batches_tracked"),
    Kind("parameter replaced inside", module=MODEL, lines=("model#.weight = nn.Parameter(model#.weight.detach() * 2); y = model#(y)",), watch="model#.weight"),
    Kind("module called and counted", module="class Net#(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.calls = 0\n        self.last = None\n    def forward(self, v):\n        self.calls += 1\n        self.last = v.detach()\n        return v * 2\nnet# = Net#()",
         lines=("y = net#(y)",), watch="net#.calls, net#.last"),
    Kind("module stores its loss", module="class Net#(nn.Module):\n    def forward(self, v):\n        self.loss = v.sum().item()\n        return v * 2\nnet# = Net#()", lines=("y = net#(y)",), watch="vars(net#).get('loss')"),
    Kind("forward hook with an effect", module=MODEL + "seen# = []\nmodel#.register_forward_hook(lambda m, a, out: seen#.append(out.shape))", lines=("y = model#(y)",), watch="seen#"),
    Kind("forward hook that keeps activations", module=MODEL + "acts# = {}\nmodel#.register_forward_hook(lambda m, a, out: acts#.update(out=out.detach()))", lines=("y = model#(y)",), watch="acts#"),
    Kind("backward hook with an effect", module="seen# = []\np# = ndgrad.ones(2, requires_grad=True)\np#.register_hook(lambda g: seen#.append(g.clone()))", lines=("y = y * p#",), watch="seen#, p#"),
    Kind("hook registered inside", module="seen# = []", lines=("y = y * 1.0; y.register_hook(lambda g: seen#.append(g.sum().item())) if y.requires_grad else None", "y = y * 1.0; y.register_hook(lambda g: g * 2) if y.requires_grad else None"), watch="seen#"),
    Kind("hook of an argument registered inside", module="seen# = []", lines=("w.register_hook(lambda g: seen#.append(1)) if w.requires_grad else None",), watch="seen#"),
    Kind("retain_grad inside", module="kept# = []", lines=("y = y * 1.0; y.retain_grad() if y.requires_grad else None",), watch="0"),
    Kind("retain_grad of an inner tensor", module="kept# = [None]", lines=("h = y * 2; h.retain_grad() if h.requires_grad else None; kept#[0] = h; y = h * 3",), watch="kept#"),
    Kind("requires_grad set inside", module="t# = ndgrad.ones(2)", lines=("t#.requires_grad_(); y = y * t#", "t#.requires_grad = True"), also=("t#.requires_grad_(False)",), watch="t#"),
    Kind("detach_ and data", module="t# = ndgrad.ones(2)", lines=("t#.data = y.detach() * 2", "y = y * 1.0; y.detach_()", "t#.set_(y.detach())" if False else "t#.data.add_(1.0)"), watch="t#"),
    Kind("resize and set", module="t# = ndgrad.ones(2)", lines=("t#.t_()", "t#.unsqueeze_(0)", "t#.squeeze_()"), also=("t# = ndgrad.ones(2)",), names="t#", watch="t#"),
    Kind("custom function with an effect", module="calls# = []\nclass Double#(ndgrad.autograd.Function):\n    @staticmethod\n    def forward(ctx, v):\n        calls#.append('f')\n        return v * 2\n    @staticmethod\n    def backward(ctx, g):\n        calls#.append('b')\n        return g * 2",
         lines=("y = Double#.apply(y)",), watch="calls#"),
    Kind("closure returned over a tensor", module="made# = []", lines=("made#.append(lambda: y.sum() * 2)", "made#[:] = [functools.partial(ndgrad.add, y.detach())]"), watch="[m() if not m.__class__ is functools.partial else m(1.0) for m in made#]"),
    Kind("object made inside", module="class Batch#:\n    def __init__(self, t):\n        self.t = t\nlast# = [None]", lines=("last#[0] = Batch#(y.detach())", "last#[0] = {'b': Batch#(3.0)}", "last#[0] = types.SimpleNamespace(t=y.detach(), n=len(y))"), watch="last#"),
    Kind("profile of shapes", module="shapes# = []", lines=("shapes#.append(tuple(y.shape))", "shapes#.append(y.dtype)", "shapes#.append(str(y.dtype))", "shapes#.append(y.requires_grad)", "shapes#.append(y.is_leaf)", "shapes#.append(y.stride())"), watch="list(map(str, shapes#))"),
    Kind("compiled function with an effect inside", module="log# = []\n@ndgrad.compile\ndef inner#(v):\n    log#.append(1)\n    return v * 2", lines=("y = inner#(y)",), watch="log#"),
]  # fmt: skip

EFFECTS = [*SEQUENCES, *NUMBERS, *ATTRIBUTES, *OUTPUT, *CALLS, *TENSORS]
