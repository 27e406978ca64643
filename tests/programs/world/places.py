"""Kinds of places that programs read from, and that change between calls."""

# ruff: noqa: E501  (a line is a kind)

from __future__ import annotations

from tests.programs.world.kinds import Kind

CONFIG = "class Config#:\n    scale = 2.0\n"

VARIABLES = [
    Kind("closure cell", local="scale# = $", get="scale#", put="scale# = $", names="scale#"),
    Kind(
        "nested closure",
        local="""
            def outer#():
                depth = $
                def read():
                    return depth
                def write(v):
                    nonlocal depth
                    depth = v
                return read, write
            read#, write# = outer#()""",
        get="read#()",
        put="write#($)",
    ),
    Kind("global", module="scale# = $", get="scale#", put="scale# = $", names="scale#", also=("globals()['scale#'] = 7.0",)),
    Kind(
        "global that is missing at first",
        get="(late# if 'late#' in globals() else 1.0)",
        put="globals()['late#'] = $",
        also=("globals().pop('late#', None)",),
    ),
    Kind("builtin shadowed by a global", get="abs(-2.0)", put="globals()['abs'] = lambda v: $", also=("globals().pop('abs', None)",), is_writable=False),
    Kind("builtin replaced", get="round(2.6)", put="builtins.round = lambda v: $", is_writable=False),
    Kind("global of another module", module="other# = module('other#', 'scale = $')", get="other#.scale", put="other#.scale = $",
         also=("vars(other#)['scale'] = 6.0", "other#.__dict__.pop('scale')")),
    Kind("function of another module", module="""
            other# = module('other#', 'scale = $\\ndef read():\\n    return scale')
            from other# import read as read#""",
         get="read#()", put="other#.scale = $"),
    Kind("module attribute added later", module="other# = module('other#', '')", get="getattr(other#, 'extra', 1.0)",
         put="other#.extra = $", also=("vars(other#).pop('extra', None)",)),
    Kind("module with __getattr__", module="other# = module('other#', 'store = [$]\\ndef __getattr__(name):\\n    return store[0]')",
         get="other#.anything", put="other#.store[0] = $"),
    Kind("package attribute", module="pkg# = module('pkg#', ''); pkg#.sub = module('pkg#.sub', 'scale = $')", get="pkg#.sub.scale",
         put="pkg#.sub.scale = $", also=("pkg#.sub = module('pkg#.sub2', 'scale = 6.0')",)),
]  # fmt: skip

CLASSES = [
    Kind("class attribute", module="class Config#:\n    scale = $", get="Config#.scale", put="Config#.scale = $",
         also=("Config# = type('Config#', (), {'scale': 6.0})",), names="Config#"),
    Kind("class attribute of an instance", module="class Config#:\n    scale = $\ncfg# = Config#()", get="cfg#.scale",
         put="Config#.scale = $", also=("cfg#.scale = 6.0",), watch="Config#.scale, vars(cfg#)"),
    Kind("metaclass attribute", module="class Meta#(type):\n    scale = $\nclass Config#(metaclass=Meta#):\n    pass",
         get="Config#.scale", put="Meta#.scale = $", also=("Config#.scale = 7.0",)),
    Kind("metaclass property", module="""
            class Meta#(type):
                stored = $
                @property
                def scale(cls):
                    return cls.stored
            class Config#(metaclass=Meta#):
                pass""",
         get="Config#.scale", put="Config#.stored = $", also=("Meta#.stored = 5.0",)),
    Kind("metaclass __getattr__", module="""
            class Meta#(type):
                store = {'scale': $}
                def __getattr__(cls, name):
                    return cls.store[name]
            class Config#(metaclass=Meta#):
                pass""",
         get="Config#.scale", put="Meta#.store['scale'] = $", also=("Config#.scale = 8.0",)),
    Kind("instance attribute", module="class Config#:\n    pass\ncfg# = Config#()\ncfg#.scale = $", get="cfg#.scale",
         put="cfg#.scale = $", names="cfg#",
         also=("cfg# = Config#(); cfg#.scale = 6.0", "del cfg#.scale", "cfg#.__dict__ = {'scale': 8.0}", "vars(cfg#)['scale'] = 9.0")),
    Kind("attribute of an attribute", module="class Config#:\n    pass\ncfg# = Config#()\ncfg#.inner = Config#()\ncfg#.inner.scale = $",
         get="cfg#.inner.scale", put="cfg#.inner.scale = $", also=("cfg#.inner = Config#(); cfg#.inner.scale = 6.0",)),
    Kind("inherited attribute", module="class Base#:\n    scale = $\nclass Child#(Base#):\n    pass\ncfg# = Child#()", get="cfg#.scale",
         put="Base#.scale = $", also=("Child#.scale = 5.0", "cfg#.scale = 6.0"), watch="Base#.scale, cfg#.scale"),
    Kind("instance attribute over a class attribute", module="class Config#:\n    scale = 2.0\ncfg# = Config#()\ncfg#.scale = $",
         get="cfg#.scale", put="cfg#.scale = $", also=("cfg#.__dict__.pop('scale', None)", "Config#.scale = 6.0"),
         watch="Config#.scale, vars(cfg#)"),
    Kind("base class replaced", module="class A#:\n    scale = $\nclass B#:\n    scale = 5.0\nclass C#(A#):\n    pass\ncfg# = C#()",
         get="cfg#.scale", put="A#.scale = $", also=("C#.__bases__ = (B#,)", "C#.__bases__ = (A#,)")),
    Kind("class of an instance replaced", module="class A#:\n    scale = $\nclass B#:\n    scale = 5.0\ncfg# = A#()", get="cfg#.scale",
         put="A#.scale = $", also=("cfg#.__class__ = B#", "cfg#.__class__ = A#"), watch="type(cfg#).__name__, cfg#.scale"),
    Kind("slot", module="class Config#:\n    __slots__ = ('scale',)\ncfg# = Config#()\ncfg#.scale = $", get="cfg#.scale", put="cfg#.scale = $",
         also=("del cfg#.scale",)),
    Kind("slot of a base class", module="""
            class Base#:
                __slots__ = ('scale',)
            class Config#(Base#):
                pass
            cfg# = Config#()
            cfg#.scale = $
            cfg#.other = 1""",
         get="cfg#.scale", put="cfg#.scale = $", watch="cfg#.scale, vars(cfg#)"),
    Kind("property", module="""
            class Config#:
                def __init__(self, value):
                    self._value = value
                @property
                def scale(self):
                    return self._value
                @scale.setter
                def scale(self, value):
                    self._value = value
            cfg# = Config#($)""",
         get="cfg#.scale", put="cfg#.scale = $", also=("Config#.scale = property(lambda self: 5.0)",), watch="vars(cfg#)"),
    Kind("property that counts", module="""
            class Config#:
                reads = 0
                @property
                def scale(self):
                    self.reads += 1
                    return self.reads * $
            cfg# = Config#()""",
         get="cfg#.scale", put="cfg#.reads = int($)", watch="vars(cfg#)", is_writable=False),
    Kind("cached property", module="""
            class Config#:
                base = $
                @functools.cached_property
                def scale(self):
                    return self.base * 2
            cfg# = Config#()""",
         get="cfg#.scale", put="cfg#.__dict__.pop('scale', None); cfg#.base = $", also=("cfg#.base = 5.0", "cfg#.scale = 9.0"), watch="vars(cfg#)"),
    Kind("__getattr__", module="""
            class Config#:
                def __init__(self):
                    self.store = {'scale': $}
                def __getattr__(self, name):
                    if name.startswith('__'):
                        raise AttributeError(name)
                    return self.store[name]
            cfg# = Config#()""",
         get="cfg#.scale", put="cfg#.store['scale'] = $", also=("cfg#.scale = 6.0", "cfg#.store = {'scale': 7.0}"), watch="vars(cfg#)"),
    Kind("__getattribute__", module="""
            class Config#:
                store = {'scale': $}
                def __getattribute__(self, name):
                    return Config#.store['scale'] if name == 'scale' else object.__getattribute__(self, name)
            cfg# = Config#()""",
         get="cfg#.scale", put="Config#.store['scale'] = $", watch="Config#.store"),
    Kind("descriptor", module="""
            class Setting#:
                def __init__(self, value):
                    self.value = value
                def __get__(self, instance, owner):
                    return self.value
            class Config#:
                scale = Setting#($)
            cfg# = Config#()""",
         get="cfg#.scale", put="vars(Config#)['scale'].value = $", also=("Config#.scale = 5.0",), watch="cfg#.scale"),
    Kind("descriptor with a setter", module="""
            class Setting#:
                def __init__(self):
                    self.values = weakref.WeakKeyDictionary()
                def __get__(self, instance, owner):
                    return self.values.get(instance, $)
                def __set__(self, instance, value):
                    self.values[instance] = value
            class Config#:
                scale = Setting#()
            cfg# = Config#()""",
         get="cfg#.scale", put="cfg#.scale = $"),
    Kind("method replaced on its class", module="class Config#:\n    def scale(self):\n        return $\ncfg# = Config#()", get="cfg#.scale()",
         put="Config#.scale = lambda self: $", also=("cfg#.scale = lambda: 6.0",), is_writable=False),
    Kind("method added later to a class", module="class Config#:\n    pass\ncfg# = Config#()",
         get="(cfg#.scale() if hasattr(cfg#, 'scale') else 1.0)", put="Config#.scale = lambda self: $", is_writable=False),
    Kind("method added later to a subclass", module="class Base#:\n    def scale(self):\n        return $\nclass Child#(Base#):\n    pass\ncfg# = Child#()",
         get="cfg#.scale()", put="Child#.scale = lambda self: $", is_writable=False),
    Kind("method that calls super()", module="""
            class Base#:
                def scale(self):
                    return $
            class Child#(Base#):
                def scale(self):
                    return super().scale() * 2
            cfg# = Child#()""",
         get="cfg#.scale()", put="Base#.scale = lambda self: $", is_writable=False),
    Kind("class method", module="class Config#:\n    value = $\n    @classmethod\n    def scale(cls):\n        return cls.value", get="Config#.scale()",
         put="Config#.value = $", watch="Config#.value"),
    Kind("static method", module="class Config#:\n    @staticmethod\n    def scale():\n        return $", get="Config#.scale()",
         put="Config#.scale = staticmethod(lambda: $)", is_writable=False),
    Kind("special method", module="""
            class Config#:
                value = $
                def __call__(self):
                    return self.value
                def __getitem__(self, key):
                    return self.value + key
                def __float__(self):
                    return float(self.value)
                def __bool__(self):
                    return self.value > 1
                def __len__(self):
                    return int(abs(self.value))
                def __contains__(self, key):
                    return key == self.value
            cfg# = Config#()""",
         get="(cfg#() + cfg#[1] + float(cfg#) + bool(cfg#) + len(cfg#) + (2.0 in cfg#))", put="cfg#.value = $",
         also=("Config#.__call__ = lambda self: 5.0", "Config#.__len__ = lambda self: 2", "Config#.__bool__ = lambda self: False")),
    Kind("__eq__ of an object", module="""
            class Config#:
                def __init__(self, value):
                    self.value = value
                def __eq__(self, other):
                    return self.value == other.value
                __hash__ = None
            cfg#, twin# = Config#($), Config#(2.0)""",
         get="(cfg# == twin#)", put="cfg#.value = $", also=("twin#.value = 0.5",)),
    Kind("__dict__ of a class", module="class Config#:\n    scale = $", get="vars(Config#)['scale']", put="Config#.scale = $"),
    Kind("ABC registration", module="class Base#(abc.ABC):\n    pass\nclass Thing#:\n    pass\nthing# = Thing#()",
         get="isinstance(thing#, Base#)", put="Base#.register(Thing#)", sort="flag"),
    Kind("__instancecheck__", module="""
            class Meta#(type):
                answer = $
                def __instancecheck__(cls, value):
                    return cls.answer
            class Thing#(metaclass=Meta#):
                pass""",
         get="isinstance(3, Thing#)", put="Meta#.answer = $", sort="flag"),
    Kind("list of subclasses", module="class Base#:\n    pass\nkept# = []", get="len(Base#.__subclasses__())",
         put="kept#.append(type('Child#', (Base#,), {'v': $}))", is_writable=False, watch="len(kept#)"),
    Kind("registry by __init_subclass__", module="""
            registry# = {}
            class Base#:
                def __init_subclass__(cls):
                    registry#[cls.__name__] = cls.factor
            type('First', (Base#,), {'factor': $})""",
         get="sum(registry#.values())", put="type('Next', (Base#,), {'factor': $})", is_writable=False, watch="registry#"),
    Kind("enum member", module="class Mode#(enum.Enum):\n    A = 2.0\n    B = 3.0\nmode# = Mode#.A", get="mode#.value", put="mode# = $", names="mode#",
         pool=("Mode#.A", "Mode#.B"), is_writable=False, watch="mode#.name"),
    Kind("enum member decides", module="class Mode#(enum.Enum):\n    A = 'a'\n    B = 'b'\ncfg# = types.SimpleNamespace(mode=Mode#.A)",
         get="(cfg#.mode is Mode#.A)", put="cfg#.mode = $", pool=("Mode#.A", "Mode#.B"), sort="flag", is_writable=False, watch="cfg#.mode.name"),
    Kind("enum member's attribute", module="class Mode#(enum.Enum):\n    A = 'a'\nMode#.A.scale = $", get="Mode#.A.scale", put="Mode#.A.scale = $"),
]  # fmt: skip

RECORDS = [
    Kind("argparse.Namespace", module="args# = argparse.Namespace(scale=$)", get="args#.scale", put="args#.scale = $",
         also=("args# = argparse.Namespace(scale=6.0)", "del args#.scale", "vars(args#)['scale'] = 7.0"), names="args#", watch="vars(args#)"),
    Kind("argparse parser", module="parser# = argparse.ArgumentParser()\nparser#.add_argument('--scale', type=float, default=$)",
         get="parser#.parse_args([]).scale", put="parser#.set_defaults(scale=$)", is_writable=False),
    Kind("SimpleNamespace", module="cfg# = types.SimpleNamespace(scale=$)", get="cfg#.scale", put="cfg#.scale = $",
         also=("del cfg#.scale", "cfg#.__dict__['scale'] = 7.0"), watch="vars(cfg#)"),
    Kind("nested SimpleNamespace", local="cfg# = types.SimpleNamespace(model=types.SimpleNamespace(scale=$))", get="cfg#.model.scale",
         put="cfg#.model.scale = $", also=("cfg#.model = types.SimpleNamespace(scale=7.0)",)),
    Kind("dataclass", module="@dataclasses.dataclass\nclass Config#:\n    scale: float = $\n    shift: float = 1.0\ncfg# = Config#()", get="cfg#.scale",
         put="cfg#.scale = $", also=("cfg# = Config#(7.0)", "cfg# = dataclasses.replace(cfg#, scale=8.0)"), names="cfg#", watch="vars(cfg#)"),
    Kind("dataclass with slots", module="@dataclasses.dataclass(slots=True)\nclass Config#:\n    scale: float = $\ncfg# = Config#()", get="cfg#.scale",
         put="cfg#.scale = $"),
    Kind("frozen dataclass", module="@dataclasses.dataclass(frozen=True)\nclass Config#:\n    scale: float = $\ncfg# = Config#()", get="cfg#.scale",
         put="cfg# = dataclasses.replace(cfg#, scale=$)", also=("object.__setattr__(cfg#, 'scale', 7.0)",), names="cfg#"),
    Kind("dataclass fields", module="@dataclasses.dataclass\nclass Config#:\n    scale: float = $\ncfg# = Config#()",
         get="sum(getattr(cfg#, field.name) for field in dataclasses.fields(cfg#))", put="cfg#.scale = $"),
    Kind("dataclass as a dict", module="@dataclasses.dataclass\nclass Config#:\n    scale: float = $\ncfg# = Config#()",
         get="dataclasses.asdict(cfg#)['scale']", put="cfg#.scale = $"),
    Kind("named tuple", module="class Config#(typing.NamedTuple):\n    scale: float = $\ncfg# = Config#()", get="cfg#.scale",
         put="cfg# = cfg#._replace(scale=$)", names="cfg#"),
    Kind("named tuple with a list", module="Config# = collections.namedtuple('Config#', 'scales')\ncfg# = Config#([$])", get="cfg#.scales[0]",
         put="cfg#.scales[0] = $"),
    Kind("ConfigParser", module="config# = configparser.ConfigParser()\nconfig#['a'] = {'scale': str(float($))}", get="config#.getfloat('a', 'scale')",
         put="config#['a']['scale'] = str(float($))", also=("config#.set('a', 'scale', '7')",), watch="dict(config#['a'])"),
    Kind("JSON text", module="text# = json.dumps({'scale': float($)})", get="json.loads(text#)['scale']", put="text# = json.dumps({'scale': float($)})",
         names="text#"),
    Kind("string template", module="template# = string.Template(chr(36) + 'x')", get="float(template#.substitute(x='2'))",
         put="template#.template = str(float($))", is_writable=False, watch="template#.template"),
    Kind("ctypes structure", module="class Config#(ctypes.Structure):\n    _fields_ = [('scale', ctypes.c_double)]\ncfg# = Config#($)", get="cfg#.scale",
         put="cfg#.scale = $"),
    Kind("ctypes array", module="values# = (ctypes.c_double * 2)($, 1.0)", get="values#[0]", put="values#[0] = $", watch="list(values#)"),
    Kind("multiprocessing value", module="value# = multiprocessing.sharedctypes.RawValue('d', $)", get="value#.value", put="value#.value = $"),
    Kind("fractions and decimals", module="amount# = decimal.Decimal(str(float($)))", get="float(amount#)", put="amount# = decimal.Decimal(str(float($)))",
         names="amount#"),
    Kind("decimal context", module="", get="float(decimal.Decimal(1) / decimal.Decimal(3))", put="decimal.getcontext().prec = $", pool=("3", "5", "9")),
    Kind("datetime", module="when# = datetime.date(2020, 1, 2)", get="when#.day", put="when# = datetime.date(2020, 1, $)", pool=("2", "3", "4"), names="when#",
         watch="when#"),
]  # fmt: skip

CONTAINERS = [
    Kind("dict", module="table# = {'a': $, 'b': 1.0}", get="table#['a']", put="table#['a'] = $",
         also=("del table#['a']", "table#.clear()", "table# = {'a': 7.0}", "table#.update(a=8.0, c=2.0)", "table#['a'] = table#.pop('a', 9.0)"), names="table#"),
    Kind("dict by a computed key", module="table# = {'a': $, 'b': 1.0}\nkey# = 'a'", get="table#[key#]", put="table#[key#] = $", also=("key# = 'b'",),
         names="key#", watch="table#, key#"),
    Kind("dict.get of a missing key", local="table# = {}", get="table#.get('a', 1.0)", put="table#['a'] = $", also=("table#.clear()",), watch="table#"),
    Kind("order of a dict", module="table# = {'a': $, 'b': 1.0}", get="next(iter(table#.values()))", put="table#['a'] = $",
         also=("table#['a'] = table#.pop('a')",), watch="list(table#.items())"),
    Kind("keyword dict", module="table# = {'alpha': $}", get="ndgrad.add(ndgrad.tensor(1.0), 2.0, **table#).item()", put="table#['alpha'] = $", sort="float",
         is_writable=False, watch="table#"),
    Kind("nested dict", module="table# = {'a': {'b': [$, 1.0]}}", get="table#['a']['b'][0]", put="table#['a']['b'][0] = $", also=("table#['a'] = {'b': [7.0]}",),
         watch="table#"),
    Kind("OrderedDict", module="table# = collections.OrderedDict(a=$, b=1.0)", get="next(iter(table#.values()))", put="table#['a'] = $",
         also=("table#.move_to_end('a')", "table#.popitem()"), watch="list(table#.items())"),
    Kind("defaultdict", module="table# = collections.defaultdict(lambda: 2.0)", get="table#['a']", put="table#['a'] = $",
         also=("table#.default_factory = lambda: 5.0", "table#.pop('a', None)"), watch="dict(table#)"),
    Kind("Counter", module="table# = collections.Counter(a=2)", get="table#['a'] + table#.total()", put="table#['b'] = $", sort="byte", watch="dict(table#)"),
    Kind("ChainMap", module="first#, second# = {}, {'a': $}\ntable# = collections.ChainMap(first#, second#)", get="table#['a']", put="table#['a'] = $",
         also=("second#['a'] = 7.0", "first#.clear()", "table#.maps.reverse()"), watch="dict(table#), first#, second#"),
    Kind("UserDict", module="table# = collections.UserDict(a=$)", get="table#['a']", put="table#['a'] = $", also=("table#.data = {'a': 7.0}",), watch="table#.data"),
    Kind("UserList", module="items# = collections.UserList([$, 1.0])", get="items#[0]", put="items#[0] = $", also=("items#.insert(0, 7.0)",), watch="items#.data"),
    Kind("UserString", module="text# = collections.UserString('ab')", get="len(text#)", put="text#.data = 'a' * int($)", sort="byte", watch="str(text#)"),
    Kind("subclass of dict", module="class Table#(dict):\n    def __missing__(self, key):\n        return 3.0\ntable# = Table#(a=$)\ntable#.extra = 1.0",
         get="table#['a'] + table#['z'] + table#.extra", put="table#['a'] = $", also=("table#.extra = 2.0", "table#['z'] = 5.0"), watch="dict(table#), vars(table#)"),
    Kind("subclass of list", module="class Items#(list):\n    @property\n    def first(self):\n        return self[0]\nitems# = Items#([$, 1.0])", get="items#.first",
         put="items#[0] = $", also=("items#.append(4.0)", "Items#.first = 6.0"), watch="list(items#)"),
    Kind("subclass of float", module="class Rate#(float):\n    pass\nrate# = Rate#($)\nrate#.warm = 1.0", get="(rate# * rate#.warm)", put="rate# = Rate#($); rate#.warm = 1.0",
         names="rate#", also=("rate#.warm = 3.0",), sort="float", is_writable=False, watch="float(rate#), vars(rate#)"),
    Kind("mapping proxy", module="table# = {'a': $}\nproxy# = types.MappingProxyType(table#)", get="proxy#['a']", put="table#['a'] = $", watch="table#"),
    Kind("dict view", module="table# = {'a': $}\nvalues# = table#.values()", get="sum(values#)", put="table#['a'] = $", also=("table#['b'] = 3.0",), watch="table#"),
    Kind("list", module="items# = [$, 1.0]", get="items#[0]", put="items#[0] = $",
         also=("items#.insert(0, 7.0)", "items#.reverse()", "items#.append(2.0)", "items#.clear()", "items# = [8.0]", "items#[:] = [9.0, 1.0]"), names="items#"),
    Kind("length of a list", local="items# = [1.0]", get="len(items#)", put="items#.append($)", also=("items#.clear()", "items#.pop()"), watch="items#"),
    Kind("loop over a list", local="items# = [$, 1.0]", get="sum(v * 2 for v in items#)", put="items#[0] = $", also=("items#.append(3.0)",), watch="items#"),
    Kind("starred list", module="items# = [$, 1.0]", get="max(*items#)", put="items#[0] = $", also=("items#.append(5.0)",), watch="items#"),
    Kind("list of callables", module="steps# = [lambda v: v * 2]", lines=("for step in steps#: y = step(y)",), put="steps#.append(lambda v: v + $)",
         is_writable=False, also=("steps#.pop()",), watch="len(steps#)"),
    Kind("tuple of lists", module="pair# = ([$], [1.0])", get="pair#[0][0]", put="pair#[0][0] = $", also=("pair#[1].append(2.0)",)),
    Kind("set", module="items# = {1.0, 2.0}", get="(2.0 in items#)", put="items#.add($)", also=("items#.discard(2.0)", "items#.clear()"), sort="float", watch="sorted(items#, key=lambda v: (float(v), str(type(v))))"),
    Kind("length of a set", module="items# = {1.0}", get="len(items#)", put="items#.add($)", also=("items#.clear()",), sort="float", watch="sorted(items#, key=lambda v: (float(v), str(type(v))))"),
    Kind("frozenset", module="items# = frozenset({1.0, 2.0})", get="(3.0 in items#) + sum(items#)", put="items# = items# | {$}", names="items#", sort="float", watch="sorted(items#, key=lambda v: (float(v), str(type(v))))"),
    Kind("deque", module="items# = collections.deque([$, 1.0], maxlen=3)", get="items#[0]", put="items#[0] = $", also=("items#.appendleft(7.0)", "items#.rotate(1)"),
         watch="list(items#)"),
    Kind("heap", module="items# = [2.0, 3.0]", get="heapq.nsmallest(1, items#)[0]", put="heapq.heappush(items#, $)", also=("heapq.heappop(items#)",), sort="float", watch="items#"),
    Kind("array.array", module="items# = array.array('d', [$, 1.0])", get="items#[0]", put="items#[0] = $", also=("items#.append(2.0)",), watch="list(items#)"),
    Kind("bytearray", module="items# = bytearray([$, 1])", get="items#[0]", put="items#[0] = $", sort="byte", watch="list(items#)"),
    Kind("memoryview", module="buffer# = bytearray([$, 1])\nview# = memoryview(buffer#)", get="view#[0]", put="view#[0] = $", also=("buffer#[0] = 5",), sort="byte",
         watch="list(buffer#)"),
    Kind("range", module="items# = range($)", get="len(items#)", put="items# = range($)", names="items#", sort="byte"),
    Kind("slice", module="part# = slice(0, 1)", lines=("y = y + x[part#].sum()", "y = y * len([1, 2, 3][part#])"), put="part# = slice(0, $)", names="part#", sort="byte",
         is_writable=False, watch="part#"),
    Kind("string list joined", local="names# = ['sin']", get="names#[-1]", put="names#.append($)", sort="text", watch="names#"),
    Kind("queue", module="queue# = queue.Queue()\nqueue#.put($)", get="(queue#.queue[0] if queue#.qsize() else 1.0)", put="queue#.put($)", also=("queue#.get(block=False)",),
         watch="list(queue#.queue)"),
    Kind("shelf of objects", module="class Item#:\n    pass\nitems# = [Item#(), Item#()]\nfor item in items#:\n    item.v = $", get="sum(item.v for item in items#)",
         put="items#[1].v = $", also=("items#.pop(0)",), watch="[item.v for item in items#]"),
    Kind("dict with tuple keys", module="table# = {(1, 'a'): $}", get="table#[1, 'a']", put="table#[1, 'a'] = $"),
    Kind("dict with object keys", module="class Key#:\n    pass\nkey# = Key#()\ntable# = {key#: $}", get="table#[key#]", put="table#[key#] = $", also=("key# = Key#(); table#[key#] = 6.0",),
         names="key#"),
    Kind("value kept by its type", local="kept# = 2", get="kept#", put="kept# = $", names="kept#", pool=("2", "2.0", "True", "1", "1.0", "np.float32(2.0)", "np.int64(2)")),
    Kind("sign of zero", local="zero# = 0.0", get="math.copysign(1.0, zero#)", put="zero# = $", names="zero#", pool=("0.0", "-0.0", "0")),
    Kind("not a number", local="value# = 1.0", get="value#", put="value# = $", names="value#", pool=("float('nan')", "float('inf')", "1.0", "-float('inf')")),
    Kind("complex number", local="value# = 2j", get="abs(value#)", put="value# = $", names="value#", pool=("2j", "complex(1, -0.0)", "3 + 4j")),
    Kind("large integer", local="value# = 2 ** 60", get="float(value# % 7)", put="value# = $", names="value#", pool=("2 ** 60", "2 ** 60 + 1", "2 ** 70")),
    Kind("text", local="name# = 'sin'", get="name#", put="name# = $", names="name#", sort="text"),
    Kind("bytes", local="raw# = b'ab'", get="raw#[0]", put="raw# = $", names="raw#", pool=("b'ab'", "b'bc'", "b'c'")),
    Kind("None or number", local="limit# = None", get="(1.0 if limit# is None else limit#)", put="limit# = $", names="limit#", pool=("None", "2.0", "3.0")),
]  # fmt: skip

ARRAYS = [
    Kind("NumPy array", module="array# = np.array([$, 1.0])", get="float(array#[0])", put="array#[0] = $", also=("array#[:] = 7.0", "array# = np.array([8.0, 1.0])"), names="array#"),
    Kind("NumPy array as an operand", module="array# = np.array([$, 1.0], dtype=np.float32)", lines=("y = y + ndgrad.from_numpy(array#)", "y = y * ndgrad.tensor(array#)"),
         put="array#[0] = $", watch="array#"),
    Kind("strided NumPy array", module="base# = np.arange(6.0)\nbase#[0] = $\narray# = base#[::2]", get="float(array#[0])", put="array#[0] = $", also=("base#[0] = 7.0", "base#[2] = 1.0"),
         watch="base#"),
    Kind("transposed NumPy array", module="base# = np.ones((2, 2))\nbase#[0, 1] = $\narray# = base#.T", get="float(array#.sum())", put="base#[0, 1] = $", watch="array#"),
    Kind("NumPy array without dimensions", module="array# = np.array($)", get="float(array#)", put="array#[...] = $"),
    Kind("NumPy array of objects", module="array# = np.array([$, 'a'], dtype=object)", get="array#[0]", put="array#[0] = $", watch="list(array#)"),
    Kind("NumPy array of integers", module="array# = np.array([1, $])", get="int(array#[1])", put="array#[1] = $", sort="byte"),
    Kind("NumPy array of booleans", module="array# = np.array([True, $])", get="bool(array#.all())", put="array#[1] = $", sort="flag"),
    Kind("NumPy record", module="array# = np.zeros(2, dtype=[('a', 'f8'), ('b', 'i4')])\narray#['a'][0] = $", get="float(array#['a'][0])", put="array#['a'][0] = $", watch="array#.tolist()"),
    Kind("masked NumPy array", module="array# = np.ma.array([$, 1.0], mask=[False, True])", get="float(array#.sum())", put="array#[0] = $", also=("array#.mask = [False, False]",),
         watch="array#.tolist()"),
    Kind("NumPy scalar", local="value# = np.float32(2.0)", get="value#", put="value# = $", names="value#",
         pool=("np.float32(2.0)", "np.float64(2.0)", "np.int32(2)", "np.float32(0.5)", "np.float16(2.0)", "np.bool_(True)")),
    Kind("shape of a NumPy array", module="array# = np.ones(2)", get="array#.shape[0]", put="array# = np.ones($)", names="array#", sort="byte"),
    Kind("NumPy dtype", module="dtype# = np.float32", lines=("y = y + np.ones(2, dtype=dtype#).itemsize",), put="dtype# = $", names="dtype#", pool=("np.float32", "np.float64"),
         watch="str(dtype#)", is_writable=False),
    Kind("ndgrad dtype", module="dtype# = ndgrad.float32", lines=("y = y.to(dtype#)", "y = y + ndgrad.ones(2, dtype=dtype#)"), put="dtype# = $", names="dtype#",
         pool=("ndgrad.float32", "ndgrad.float64"), watch="str(dtype#)", is_writable=False),
    Kind("memory map", module="np.arange(3.0).tofile('map#.bin')\narray# = np.memmap('map#.bin', dtype='f8', mode='r+')", get="float(array#[0])", put="array#[0] = $", watch="np.array(array#)"),
    Kind("read-only view of a NumPy array", module="base# = np.array([$, 1.0])\narray# = base#[:]\narray#.flags.writeable = False", get="float(array#[0])", put="base#[0] = $", watch="base#"),
    Kind("captured tensor", module="t# = $", get="t#", put="t# = $", names="t#", sort="tensor", also=("t#.data = t#.data * 2", "t# = t#.detach().double()")),
    Kind("values of a captured tensor", module="t# = ndgrad.tensor([1.0, 2.0])", get="t#", put="t#.fill_($)", sort="tensor", pool=("2.0", "3.0"),
         also=("t#[0] = 5.0", "t#.mul_(2.0)", "t#.copy_(ndgrad.ones(2))")),
    Kind("tensor in a list", local="ts# = [$, $]", get="ts#[0]", put="ts#[0] = $", sort="tensor", also=("ts#.reverse()", "ts#.append(ts#[0])", "ts#[0] = ts#[1]")),
    Kind("tensor in a dict", module="ts# = {'a': $}", get="ts#['a']", put="ts#['a'] = $", sort="tensor"),
    Kind("tensor in an attribute", module="cfg# = types.SimpleNamespace(t=$)", get="cfg#.t", put="cfg#.t = $", sort="tensor"),
    Kind("tensor in a class attribute", module="class Config#:\n    t = $", get="Config#.t", put="Config#.t = $", sort="tensor"),
    Kind("two names of one tensor", module="a# = ndgrad.tensor([1.0, 2.0])\nb# = a#", lines=("y = y + a# * 2 - b#",), put="b# = $", names="b#", sort="tensor", watch="a#, b#, a# is b#",
         also=("a#.mul_(2.0)",), is_writable=False),
    Kind("view of a captured tensor", module="base# = ndgrad.arange(4.0)\nview# = base#[::2]", lines=("y = y + view#",), put="base#[0] = $", sort="float", watch="base#, view#"),
    Kind("tensor over a NumPy array", module="array# = np.ones(2, dtype=np.float32)\nt# = ndgrad.from_numpy(array#)", lines=("y = y + t#",), put="array#[0] = $", sort="float", watch="t#"),
    Kind("tensor made from a number", module="scale# = $", lines=("y = y + ndgrad.tensor([scale#, 1.0])", "y = y * ndgrad.full((2,), float(scale#))"), put="scale# = $", names="scale#", watch="scale#"),
]  # fmt: skip

PROCESS = [
    Kind("context variable", module="var# = contextvars.ContextVar('var#', default=$)", get="var#.get()", put="var#.set($)"),
    Kind("thread local", module="local# = threading.local()\nlocal#.scale = $", get="local#.scale", put="local#.scale = $", also=("del local#.scale",)),
    Kind("environment variable", module="os.environ['SCALE#'] = str(float($))", get="float(os.environ.get('SCALE#', '1'))", put="os.environ['SCALE#'] = str(float($))",
         also=("os.environ.pop('SCALE#', None)",), watch="os.environ.get('SCALE#')"),
    Kind("os.getenv", module="os.environ['SCALE#'] = '2'", get="float(os.getenv('SCALE#', '1'))", put="os.environ['SCALE#'] = str(float($))"),
    Kind("text file", module="open('note#.txt', 'w').write(str(float($)))", get="float(open('note#.txt').read())", put="pathlib.Path('note#.txt').write_text(str(float($)))",
         is_writable=False),
    Kind("pathlib", module="path# = pathlib.Path('note#.txt')\npath#.write_text(str(float($)))", get="float(path#.read_text())", put="path#.write_text(str(float($)))",
         also=("path#.unlink()",)),
    Kind("NumPy file", module="np.save('a#.npy', np.array([$, 1.0]))", get="float(np.load('a#.npy')[0])", put="np.save('a#.npy', np.array([$, 1.0]))"),
    Kind("NumPy text file", module="np.savetxt('a#.txt', [float($), 1.0])", get="float(np.loadtxt('a#.txt')[0])", put="np.savetxt('a#.txt', [float($), 1.0])"),
    Kind("JSON file", module="json.dump({'scale': float($)}, open('c#.json', 'w'))", get="json.load(open('c#.json'))['scale']",
         put="pathlib.Path('c#.json').write_text(json.dumps({'scale': float($)}))", is_writable=False),
    Kind("pickle file", module="pathlib.Path('p#').write_bytes(pickle.dumps($))", get="pickle.loads(pathlib.Path('p#').read_bytes())", put="pathlib.Path('p#').write_bytes(pickle.dumps($))",
         sort="float"),
    Kind("saved tensor", module="ndgrad.save(ndgrad.tensor([float($), 1.0]), 't#.pt')", lines=("y = y + ndgrad.load('t#.pt')",),
         put="ndgrad.save(ndgrad.tensor([float($), 1.0]), 't#.pt')", watch="ndgrad.load('t#.pt')", is_writable=False),
    Kind("os.path.exists", get="os.path.exists('flag#')", put="pathlib.Path('flag#').touch()", also=("os.path.exists('flag#') and os.remove('flag#')",), sort="flag"),
    Kind("Path.exists", module="path# = pathlib.Path('flag#')", get="path#.exists()", put="path#.touch()", also=("path#.unlink(missing_ok=True)",), sort="flag"),
    Kind("size of a file", module="pathlib.Path('size#').write_text('ab')", get="os.stat('size#').st_size", put="pathlib.Path('size#').write_text('a' * $)", sort="byte"),
    Kind("listing of a folder", module="os.mkdir('dir#')", get="len(os.listdir('dir#'))", put="pathlib.Path('dir#', str($)).touch()", sort="byte"),
    Kind("glob", module="os.mkdir('glob#')", get="len(glob.glob('glob#/*'))", put="pathlib.Path('glob#', str($)).touch()", sort="byte"),
    Kind("current folder", module="os.mkdir('cwd#')", get="len(os.path.basename(os.getcwd()) == 'cwd#' and 'ab' or 'a')", put="os.chdir('cwd#' if $ > 1 else '.')", sort="byte",
         is_writable=False),
    Kind("database", module="db# = sqlite3.connect(':memory:')\ndb#.execute('create table t (v)')\ndb#.execute('insert into t values (2.0)')",
         get="db#.execute('select sum(v) from t').fetchone()[0]", put="db#.execute('insert into t values (?)', (float($),))"),
    Kind("StringIO", module="text# = io.StringIO('2.0')", get="float(text#.getvalue() or 1)", put="text#.seek(0); text#.truncate(); text#.write(str(float($)))"),
    Kind("clock that moves on", local="last# = 0", lines=("now = time.perf_counter_ns(); y = y * float(now > last#); last# = now",), put="last# = 0", names="last#", watch="last# > 0"),
    Kind("clock in a closure", local="clock# = time.monotonic_ns; last# = 0", lines=("now = clock#(); y = y * float(now > last#); last# = now",), put="last# = 0", names="last#", watch="last# > 0"),
    Kind("clock in an attribute", module="class Timer#:\n    clock = staticmethod(time.perf_counter_ns)\n    last = 0\ntimer# = Timer#()",
         lines=("now = timer#.clock(); y = y * float(now > timer#.last); timer#.last = now",), put="timer#.last = 0", watch="timer#.last > 0"),
    Kind("deadline", module="deadline# = time.time() + 1e6", get="(time.time() > deadline#)", put="deadline# = time.time() + $", pool=("1e6", "-1e6"), names="deadline#", sort="flag", watch="0"),
    Kind("datetime.now", module="last# = datetime.datetime(2000, 1, 1)", get="(datetime.datetime.now() >= last#)", put="last# = datetime.datetime(2000 if $ else 3000, 1, 1)", sort="flag",
         names="last#"),
    Kind("clock that is replaced", module="time.time = itertools.count(1.0).__next__", get="time.time()", put="time.time = itertools.count(float($)).__next__", watch="0", is_writable=False),
    Kind("counter as a clock", module="tick# = itertools.count(1).__next__", get="tick#()", put="tick# = itertools.count($).__next__", names="tick#", sort="byte", watch="0", is_writable=False),
    Kind("random", get="random.random()", put="random.seed($)", sort="byte", is_writable=False, watch="random.getstate()"),
    Kind("random.Random", module="rng# = random.Random(0)", get="rng#.random()", put="rng#.seed($)", sort="byte", is_writable=False, watch="rng#.getstate()"),
    Kind("random.choice in a closure", local="choice# = random.choice", get="choice#([1.0, 2.0, 3.0])", put="random.seed($)", sort="byte", is_writable=False, watch="random.getstate()"),
    Kind("numpy.random", get="float(np.random.rand())", put="np.random.seed($)", sort="byte", is_writable=False, watch="np.random.get_state()[1].sum()"),
    Kind("NumPy Generator", module="rng# = np.random.default_rng(0)", get="float(rng#.random())", put="rng# = np.random.default_rng($)", names="rng#", sort="byte", is_writable=False,
         watch="rng#.bit_generator.state['state']"),
    Kind("RandomState", module="rng# = np.random.RandomState(0)", get="float(rng#.rand())", put="rng#.seed($)", sort="byte", is_writable=False, watch="rng#.get_state()[1].sum()"),
    Kind("NumPy generator without a seed", get="float(np.random.default_rng().random() < 2)", put="np.random.seed($)", sort="byte"),
    Kind("ndgrad.rand", lines=("y = y + ndgrad.rand(2)", "y = y * ndgrad.randn(2)", "y = nn.functional.dropout(y, 0.5)", "y = y + ndgrad.randint(0, 5, (2,))",
                               "y = y[ndgrad.randperm(len(y))]"),
         put="ndgrad.manual_seed($)", sort="byte", is_writable=False, watch="ndgrad.get_rng_state()"),
    Kind("ndgrad generator", module="gen# = ndgrad.Generator().manual_seed(0)", lines=("y = y + ndgrad.rand(2, generator=gen#)", "y = y + ndgrad.zeros(2).normal_(generator=gen#)"),
         put="gen#.manual_seed($)", sort="byte", is_writable=False, watch="gen#.get_state()"),
    Kind("uuid", get="float(len(str(uuid.uuid4())) == 36)", put="random.seed($)", sort="byte"),
    Kind("default dtype", lines=("y = y + ndgrad.ones(2)", "y = y * ndgrad.tensor(1.5)", "y = y + ndgrad.zeros(2).dtype.itemsize"), put="ndgrad.set_default_dtype($)",
         pool=("ndgrad.float64", "ndgrad.float32"), watch="str(ndgrad.get_default_dtype())"),
    Kind("grad mode", lines=("y = y * 2 if ndgrad.is_grad_enabled() else y - 1", "y = y * y"), put="ndgrad.set_grad_enabled($)", sort="flag", watch="ndgrad.is_grad_enabled()"),
    Kind("grad mode inside", lines=("with ndgrad.no_grad(): y = y * 2", "with ndgrad.set_grad_enabled(flag#): y = y * x * w", "with ndgrad.enable_grad(): y = y * w"), module="flag# = True",
         put="flag# = $", names="flag#", sort="flag", watch="flag#", is_writable=False),
    Kind("autocast inside", module="flag# = True", lines=("with ndgrad.autocast('cpu', dtype=ndgrad.bfloat16, enabled=flag#): y = y + (ndgrad.ones(2, 2) @ y).float()",), put="flag# = $", names="flag#",
         sort="flag", watch="flag#", is_writable=False),
    Kind("np.errstate", lines=("y = y + float(np.float64(1.0) / np.float64(zero#))", "y = y / (y - y)", "y = (y * 0 - 1).log()"), module="zero# = 2.0", put="np.seterr(all=$)",
         pool=("'raise'", "'ignore'", "'warn'"), also=("zero# = 0.0",), names="zero#", is_writable=False, watch="np.geterr()"),
    Kind("warning filters", lines=("warnings.warn('careful', UserWarning)", "y = (y * 0 - 1).sqrt()"), put="warnings.simplefilter($)", pool=("'error'", "'ignore'", "'always'", "'once'", "'default'", "'module'"),
         is_writable=False, watch="len(warnings.filters)"),
    Kind("level of a logger", module="log# = logging.getLogger('program#')", get="log#.isEnabledFor(logging.INFO)", put="log#.setLevel($)", pool=("logging.INFO", "logging.ERROR"), sort="flag",
         watch="log#.level"),
    Kind("sys.modules", get="('extra#' in sys.modules)", put="module('extra#', '')", also=("sys.modules.pop('extra#', None)",), sort="flag"),
    Kind("sys attribute", get="float(len(sys.argv))", put="sys.argv.append(str($))"),
    Kind("recursion limit", get="(sys.getrecursionlimit() > 5000)", put="sys.setrecursionlimit(6000 if $ else 4000)", sort="flag", is_writable=False),
    Kind("name of the thread", get="len(threading.current_thread().name)", put="threading.current_thread().name = 'M' * $", sort="byte"),
    Kind("event", module="event# = threading.Event()", get="event#.is_set()", put="event#.set()", also=("event#.clear()",), sort="flag"),
    Kind("lock", module="lock# = threading.Lock()", get="lock#.locked()", put="lock#.acquire(blocking=False)", also=("lock#.locked() and lock#.release()",), sort="flag"),
    Kind("caller's frame", module="depth# = $", get="sys._getframe().f_globals['depth#']", put="depth# = $", names="depth#"),
    Kind("garbage collector", get="gc.isenabled()", put="gc.enable() if $ else gc.disable()", sort="flag", is_writable=False),
    Kind("signal handler", get="(signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN)", put="signal.signal(signal.SIGUSR1, signal.SIG_IGN if $ else signal.SIG_DFL)", sort="flag", is_writable=False),
    Kind("umask", get="os.umask(os.umask(0o22))", put="os.umask($)", pool=("0o22", "0o27")),
    Kind("number of threads", get="threading.active_count()", put="threading.active_count()", watch="0"),
    Kind("print options", get="np.get_printoptions()['precision']", put="np.set_printoptions(precision=$)", sort="byte"),
]  # fmt: skip

FUNCTIONS = [
    Kind("default argument", local="def scaled#(v, scale=$):\n    return v * scale", get="scaled#(1.0)", put="scaled#.__defaults__ = ($,)"),
    Kind("default argument that is a list", local="def scaled#(v, scale=[$]):\n    return v * scale[0]", get="scaled#(1.0)", put="scaled#.__defaults__[0][0] = $"),
    Kind("keyword default", local="def scaled#(v, *, scale=$):\n    return v * scale", get="scaled#(1.0)", put="scaled#.__kwdefaults__ = {'scale': $}",
         also=("scaled#.__kwdefaults__['scale'] = 6.0",)),
    Kind("partial", module="part# = functools.partial(operator.mul, $)", get="part#(1.0)", put="part# = functools.partial(operator.mul, $)", names="part#"),
    Kind("keywords of a partial", module="def scaled#(v, scale):\n    return v * scale\npart# = functools.partial(scaled#, scale=$)", get="part#(1.0)", put="part#.keywords['scale'] = $"),
    Kind("partial method", module="class Config#:\n    def get(self, k):\n        return self.v * k\n    twice = functools.partialmethod(get, 2)\n    v = $\ncfg# = Config#()", get="cfg#.twice()",
         put="cfg#.v = $"),
    Kind("functools.cache", module="table# = {'a': $}\n@functools.cache\ndef cached#(key):\n    return table#[key]", get="cached#('a')", put="table#['a'] = $; cached#.cache_clear()",
         also=("table#['a'] = 9.0", "cached#.cache_clear()"), watch="cached#.cache_info()", is_writable=False),
    Kind("functools.lru_cache by a number", module="calls# = []\n@functools.lru_cache(maxsize=2)\ndef cached#(key):\n    calls#.append(key)\n    return key * 2.0\nkey# = $", get="cached#(key#)",
         put="key# = $", names="key#", watch="cached#.cache_info(), calls#", also=("cached#.cache_clear()", "cached#(9.0)", "cached#(9.0); cached#(9.0); cached#(8.0)"), is_writable=False),
    Kind("cache of tensors", module="@functools.cache\ndef cached#(n):\n    return ndgrad.arange(float(n))\nn# = 2", lines=("y = y + cached#(n#).sum()",), put="n# = $", names="n#", sort="byte",
         watch="cached#.cache_info()", also=("cached#.cache_clear()", "cached#(2).mul_(2.0)", "cached#(5)"), is_writable=False),
    Kind("dictionary in a context variable", module="var# = contextvars.ContextVar('var#', default={'a': $})", get="var#.get()['a']", put="var#.set({'a': $})", also=("var#.get()['a'] = 7.0", "var#.get()['a'] += 1"), watch="var#.get()", is_writable=False),
    Kind("cached container", module="@functools.lru_cache\ndef cached#(key):\n    return {key: $}", get="cached#('a')['a']", put="cached#('a')['a'] = $", watch="cached#.cache_info()",
         also=("cached#.cache_clear()", "cached#('b')")),
    Kind("cached object", module="class Config#:\n    v = $\n@functools.cache\ndef cached#():\n    return Config#()", get="cached#().v", put="cached#().v = $", watch="cached#.cache_info()",
         also=("cached#.cache_clear()", "Config#.v = 8.0")),
    Kind("cached method", module="class Config#:\n    scale = $\n    @functools.lru_cache(maxsize=4)\n    def get(self, k, *, power=1):\n        return self.scale * k ** power\ncfg# = Config#()", get="cfg#.get(2, power=2)",
         put="cfg#.scale = $; Config#.get.cache_clear()", watch="Config#.get.cache_info()", also=("cfg#.get(3)", "cfg# = Config#()"), names="cfg#", is_writable=False),
    Kind("cache in a tuple", module="@functools.cache\ndef cached#(k):\n    return k * 2.0\ntable# = (cached#, $)", get="table#[0](table#[1])", put="table# = (cached#, $)", names="table#", watch="cached#.cache_info()",
         also=("cached#.cache_clear()",), is_writable=False),
    Kind("user's memo dict", module="memo# = {}\ndef lookup#(k):\n    if k not in memo#:\n        memo#[k] = k * 2.0\n    return memo#[k]\nkey# = $", get="lookup#(key#)", put="key# = $", names="key#",
         also=("memo#.clear()", "memo#[2.0] = 1.0"), watch="memo#", is_writable=False),
    Kind("bound method", module="class Config#:\n    v = $\n    def get(self):\n        return self.v\ncfg# = Config#()\nget# = cfg#.get", get="get#()", put="cfg#.v = $",
         also=("get# = (lambda: 6.0)",), names="get#"),
    Kind("builtin bound method", module="table# = {'a': $}\nget# = table#.get", get="get#('a')", put="table#['a'] = $", watch="table#"),
    Kind("bound method of a list", module="items# = [$]\nat# = items#.__getitem__", get="at#(0)", put="items#[0] = $", watch="items#"),
    Kind("bound method of an array", module="array# = np.array([$, 1.0])\ntotal# = array#.sum", get="float(total#())", put="array#[0] = $", watch="array#"),
    Kind("bound method of a tensor", module="t# = ndgrad.ones(2)\nplus# = t#.add", lines=("y = plus#(y)",), put="t#.fill_($)", sort="float", watch="t#"),
    Kind("weak reference", module="class Config#:\n    pass\ncfg# = Config#()\ncfg#.scale = $\nref# = weakref.ref(cfg#)", get="(ref#().scale if ref#() else 1.0)", put="cfg#.scale = $"),
    Kind("weak reference that dies", module="class Config#:\n    pass\ncfg# = Config#()\nref# = weakref.ref(cfg#)", get="(ref#() is None)", put="cfg# = None", names="cfg#", sort="flag",
         is_writable=False),
    Kind("weak proxy", module="class Config#:\n    pass\ncfg# = Config#()\ncfg#.scale = $\nproxy# = weakref.proxy(cfg#)", get="proxy#.scale", put="cfg#.scale = $"),
    Kind("weak dictionary", module="class Config#:\n    pass\ncfg# = Config#()\ntable# = weakref.WeakKeyDictionary({cfg#: $})", get="table#[cfg#]", put="table#[cfg#] = $"),
    Kind("getattr by a name", module="cfg# = types.SimpleNamespace(a=$, b=1.0)\nname# = 'a'", get="getattr(cfg#, name#)", put="setattr(cfg#, name#, $)", also=("name# = 'b'",), names="name#",
         watch="vars(cfg#)"),
    Kind("getattr by a name on an object", module="class Config#:\n    a = 2.0\n    b = 3.0\ncfg# = Config#()\nnames# = ['a']", get="getattr(cfg#, names#[0])", put="Config#.a = $", also=("names#[0] = 'b'",),
         is_writable=False),
    Kind("getattr by a built name", module="class Config#:\n    pass\ncfg# = Config#()\ncfg#.scale_a = $", get="getattr(cfg#, 'scale_' + 'A'.lower())", put="cfg#.scale_a = $"),
    Kind("getattr of a class by a built name", module="class Config#:\n    scale_a = $", get="getattr(Config#, 'scale_' + 'A'.lower())", put="Config#.scale_a = $"),
    Kind("getattr with a default", module="class Config#:\n    pass\ncfg# = Config#()", get="getattr(cfg#, 'late', 1.0)", put="cfg#.late = $", also=("cfg#.__dict__.pop('late', None)",)),
    Kind("vars()", module="class Config#:\n    pass\ncfg# = Config#()\ncfg#.scale = $", get="vars(cfg#)['scale']", put="cfg#.scale = $"),
    Kind("dir()", module="cfg# = types.SimpleNamespace()", get="sum(1 for n in dir(cfg#) if n.startswith('extra'))", put="setattr(cfg#, 'extra' + str($), 1)", sort="byte"),
    Kind("globals() by a name", module="scale# = $", get="globals()['scale' + '#']", put="globals()['scale#'] = $"),
    Kind("attrgetter", module="cfg# = types.SimpleNamespace(a=types.SimpleNamespace(b=$))\nget# = operator.attrgetter('a.b')", get="get#(cfg#)", put="cfg#.a.b = $"),
    Kind("attrgetter on a class", module="class Config#:\n    scale = $\nget# = operator.attrgetter('scale')", get="get#(Config#)", put="Config#.scale = $"),
    Kind("itemgetter", module="table# = {'a': $}\nget# = operator.itemgetter('a')", get="get#(table#)", put="table#['a'] = $"),
    Kind("methodcaller", module="class Config#:\n    v = $\n    def get(self):\n        return self.v\ncfg# = Config#()\ncall# = operator.methodcaller('get')", get="call#(cfg#)", put="cfg#.v = $",
         also=("Config#.get = lambda self: 7.0",)),
    Kind("map and filter", module="class Config#:\n    v = $\ncfgs# = [Config#(), Config#()]", get="sum(map(operator.attrgetter('v'), cfgs#))", put="Config#.v = $"),
    Kind("functools.reduce", module="items# = [$, 2.0]", get="functools.reduce(operator.add, items#)", put="items#[0] = $", watch="items#"),
    Kind("sorted with a key", module="weights# = {'a': 1.0, 'b': $}", get="weights#[sorted(weights#, key=weights#.get)[0]]", put="weights#['b'] = $", sort="float", watch="weights#"),
    Kind("import inside", module="other# = module('other#', 'scale = $')", lines=("import other#; y = y * other#.scale", "from other# import scale as s#; y = y * s#"), put="sys.modules['other#'].scale = $",
         also=("module('other#', 'scale = 7.0')",), watch="sys.modules['other#'].scale"),
    Kind("importlib", module="other# = module('other#', 'scale = $')", get="importlib.import_module('other#').scale", put="other#.scale = $", also=("module('other#', 'scale = 7.0')",)),
    Kind("__import__", module="other# = module('other#', 'scale = $')", get="__import__('other#').scale", put="other#.scale = $"),
    Kind("eval", module="scale# = $", get="eval('scale' + '#')", put="scale# = $", names="scale#"),
    Kind("eval of a text", module="code# = 'x * 2'", lines=("y = y + eval(code#)",), put="code# = $", pool=("'x * 2'", "'x - 1'"), names="code#", watch="code#", is_writable=False),
    Kind("exec", module="scale# = $\ndef run#():\n    space = {}\n    exec('from __main__ import sys' if False else 'v = 1.0 * ' + str(float(scale#)), space)\n    return space['v']", get="run#()", put="scale# = $",
         names="scale#"),
    Kind("compiled code object", module="scale# = $\ncode# = compile('scale#', 'a', 'eval')", get="eval(code#, globals())", put="scale# = $", names="scale#"),
    Kind("function attribute", local="def helper#():\n    return helper#.scale\nhelper#.scale = $", get="helper#()", put="helper#.scale = $"),
    Kind("function attribute added later", module="def helper#():\n    return getattr(helper#, 'scale', 1.0)", get="helper#()", put="helper#.scale = $", also=("vars(helper#).pop('scale', None)",)),
    Kind("user's function replaced", module="def helper#():\n    return $", get="helper#()", put="helper# = (lambda: $)", names="helper#", is_writable=False),
    Kind("code of a function replaced", module="def helper#():\n    return $", get="helper#()", put="helper#.__code__ = (lambda: $).__code__", is_writable=False),
    Kind("function of math replaced", get="math.floor(2.5)", put="math.floor = lambda v: $", is_writable=False),
    Kind("function of NumPy replaced", get="float(np.hypot(3.0, 4.0))", put="np.hypot = lambda a, b: $", is_writable=False),
    Kind("function of ndgrad replaced", lines=("y = ndgrad.sinh(y)",), put="ndgrad.sinh = lambda v: v * $", is_writable=False, watch="0"),
    Kind("function of nn.functional replaced", lines=("y = nn.functional.softplus(y)",), put="nn.functional.softplus = lambda v: v * $", is_writable=False, watch="0"),
    Kind("alias of ndgrad's function", module="act# = ndgrad.sin", get="act#", put="act# = $", names="act#", sort="callable"),
    Kind("dispatch table", module="table# = {'a': ndgrad.sin}", get="table#['a']", put="table#['a'] = $", sort="callable"),
    Kind("callable in a closure", local="act# = ndgrad.sin", get="act#", put="act# = $", names="act#", sort="callable"),
    Kind("singledispatch", module="@functools.singledispatch\ndef show#(v):\n    return 1.0\nvalue# = 3", get="show#(value#)", put="show#.register(int, lambda v: $)", is_writable=False),
    Kind("user's decorator", module="enabled# = True\ndef twice#(fn):\n    @functools.wraps(fn)\n    def run(*args):\n        return fn(*args) * 2 if enabled# else fn(*args)\n    return run\n@twice#\ndef base#(v):\n    return v + 1",
         lines=("y = base#(y)",), put="enabled# = $", names="enabled#", sort="flag", watch="enabled#"),
    Kind("user's context manager", module="stack# = [1.0]\n@contextlib.contextmanager\ndef scaled#(v):\n    stack#.append(v)\n    try:\n        yield\n    finally:\n        stack#.pop()\nk# = $",
         lines=("with scaled#(k#): y = y * stack#[-1]",), put="k# = $", names="k#", watch="stack#, k#", is_writable=False),
    Kind("class as a context manager", module="class Scope#:\n    depth = 0\n    def __enter__(self):\n        Scope#.depth += 1\n        return self\n    def __exit__(self, *error):\n        Scope#.depth -= 1\nk# = $",
         lines=("with Scope#(): y = y * (Scope#.depth + k#)",), put="k# = $", names="k#", watch="Scope#.depth"),
    Kind("exception caught inside", module="table# = {'a': $}", lines=("""
            try:
                y = y * table#['a']
            except KeyError:
                y = y - 1""",), put="table#['a'] = $", also=("table#.pop('a', None)",), watch="table#"),
    Kind("exception of a tensor caught inside", module="size# = 2", lines=("""
            try:
                y = y + ndgrad.ones(size#)
            except RuntimeError:
                y = y - 1""",), put="size# = $", names="size#", sort="byte", watch="size#"),
    Kind("recursion", module="depth# = 2\ndef down#(v, n):\n    return v if n == 0 else down#(v * 1.5, n - 1)", lines=("y = down#(y, depth#)",), put="depth# = $", names="depth#", sort="byte", watch="depth#"),
    Kind("iterator", module="it# = iter([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])", get="next(it#, 9.0)", put="it# = iter([$, 2.0, 3.0])", names="it#", is_writable=False, watch="0"),
    Kind("generator", module="def gen#():\n    v = $\n    while True:\n        v += 1\n        yield v\ng# = gen#()", get="next(g#)", put="g# = gen#()", names="g#", is_writable=False, watch="0"),
    Kind("generator made inside", module="k# = $\ndef gen#():\n    yield 1.0\n    yield k#", get="sum(gen#())", put="k# = $", names="k#"),
    Kind("itertools.cycle", module="it# = itertools.cycle([1.0, 2.0, 3.0])", get="next(it#)", put="next(it#)", is_writable=False, watch="0"),
    Kind("enumerate and zip", local="a#, b# = [$, 1.0], [2.0, 3.0]", get="sum(i * u * v for i, (u, v) in enumerate(zip(a#, b#), 1))", put="a#[0] = $", also=("b#.pop()",), watch="a#, b#"),
    Kind("method of ndgrad.Tensor added", get="(float(x.bonus()) if hasattr(x, 'bonus') else 1.0)", put="ndgrad.Tensor.bonus = lambda self: $", is_writable=False),
    Kind("compiled function inside", module="scale# = $\n@ndgrad.compile\ndef inner#(v):\n    return v * scale#", lines=("y = inner#(y)",), put="scale# = $", names="scale#", watch="scale#", is_writable=False),
    Kind("transform inside", module="scale# = $", lines=("y = y + ndgrad.func.grad(lambda v: (v * v * scale#).sum())(x)", "y = y + ndgrad.func.vmap(lambda v: v * scale#)(x)"), put="scale# = $", names="scale#",
         sort="float", watch="scale#", is_writable=False),
    Kind("custom autograd function", module="""
            class Scale#(ndgrad.autograd.Function):
                factor = $
                @staticmethod
                def forward(ctx, v):
                    return v * Scale#.factor
                @staticmethod
                def backward(ctx, g):
                    return g * Scale#.factor""",
         lines=("y = Scale#.apply(y)",), put="Scale#.factor = $", sort="float", watch="Scale#.factor", is_writable=False),
]  # fmt: skip

MODEL = "model# = nn.Linear(2, 2)\nwith ndgrad.no_grad():\n    [p.fill_(0.5) for p in model#.parameters()]\n"
TENSORS = [
    Kind("attribute of an argument", lines=("y = y * getattr(x, 'scale', 1.0)", "y = y * (x.scale if hasattr(x, 'scale') else 2.0)"), put="x.scale = $", also=("x.__dict__.pop('scale', None)",),
         watch="vars(x)"),
    Kind("attribute of a captured tensor", module="t# = ndgrad.ones(2)\nt#.scale = $", get="t#.scale", put="t#.scale = $", watch="vars(t#)"),
    Kind("is_leaf of an argument", lines=("y = y * 2 if w.is_leaf else y - 1",), put="w = w * 1.0", names="", watch="w.is_leaf", is_writable=False),
    Kind("requires_grad of an argument", lines=("y = y * 2 if x.requires_grad else y - 1",), put="x = x.detach().requires_grad_($)", sort="flag", watch="x.requires_grad", is_writable=False),
    Kind("requires_grad of a captured tensor", module="t# = ndgrad.ones(2)", lines=("y = y * t# * 2 if t#.requires_grad else y - t#",), put="t#.requires_grad_($)", sort="flag", watch="t#"),
    Kind("grad of a tensor", module="t# = ndgrad.ones(2, requires_grad=True)", lines=("y = y * t# if t#.grad is None else y * t# + t#.grad", "y = y + (0 if t#.grad is None else t#.grad.sum())"),
         put="t#.grad = $", pool=("None", "ndgrad.ones(2)", "ndgrad.tensor([2.0, 3.0])"), watch="t#", is_writable=False),
    Kind("names and shape of an argument", lines=("y = y * x.shape[0] + x.dim() + x.numel()", "y = y.reshape(-1) * len(x)"), put="x = x.detach()[:$]", sort="byte", watch="x.shape", is_writable=False),
    Kind("strides of an argument", lines=("y = y * x.stride()[0]", "y = y * 2 if x.is_contiguous() else y - 1"), put="x = ndgrad.arange(8.0)[::$][:2]", pool=("1", "2", "3"), watch="x.stride()", is_writable=False),
    Kind("version of a tensor", module="t# = ndgrad.ones(2)", get="t#._version", put="t#.add_(1.0)", is_writable=False),
    Kind("identity of arguments", lines=("y = y * 2 if x is w else y - 1",), put="x = w", watch="x is w", is_writable=False),
    Kind("hook of a captured tensor", module="t# = ndgrad.ones(2, requires_grad=True)\nhandles# = []", lines=("y = y * t#",), put="handles#.append(t#.register_hook(lambda g: g * $))",
         also=("[h.remove() for h in handles#]",), sort="float", watch="t#", is_writable=False),
    Kind("hook of an argument", module="handles# = []", lines=("y = y * w",), put="handles#.append(w.register_hook(lambda g: g * $)) if w.requires_grad else None", also=("[h.remove() for h in handles#]",),
         sort="float", watch="w", is_writable=False),
    Kind("forward hook of a module", module=MODEL + "handles# = []", lines=("y = model#(y)",), put="handles#.append(model#.register_forward_hook(lambda m, a, out: out * $))",
         also=("[h.remove() for h in handles#]",), sort="float", watch="len(handles#)", is_writable=False),
    Kind("forward pre-hook of a module", module=MODEL, lines=("y = model#(y)",), put="model#.register_forward_pre_hook(lambda m, a: (a[0] * $,))", sort="float", watch="0", is_writable=False),
    Kind("hook of all modules", module=MODEL + "handles# = []", lines=("y = model#(y)",), put="handles#.append(nn.modules.module.register_module_forward_hook(lambda m, a, out: out * $))",
         also=("[h.remove() for h in handles#]; handles#.clear()",), sort="float", watch="len(handles#)", is_writable=False),
    Kind("training flag", module="model# = nn.Linear(2, 2)\nclass Wrap#(nn.Module):\n    def forward(self, v):\n        return v * 2 if self.training else v - 1\nmodel# = Wrap#()", lines=("y = model#(y)",),
         put="model#.train($)", sort="flag", watch="model#.training", is_writable=False),
    Kind("dropout and training", module="model# = nn.Dropout(0.5)", lines=("y = model#(y)",), put="model#.train($)", sort="flag", also=("model#.p = 0.1",), watch="model#.training", is_writable=False),
    Kind("parameter replaced", module=MODEL, lines=("y = model#(y)",), put="model#.weight = nn.Parameter(ndgrad.full((2, 2), $))", sort="float",
         also=("model#.bias = None", "model#.weight.requires_grad_(False)", "model#.weight.data.fill_(3.0)"), watch="dict(model#.named_parameters())", is_writable=False),
    Kind("buffer replaced", module="model# = nn.Module()\nmodel#.register_buffer('b', ndgrad.ones(2))", lines=("y = y * model#.b",), put="model#.b = ndgrad.full((2,), $)", sort="float",
         also=("model#.b.mul_(2.0)", "model#.b = ndgrad.tensor(2.0)"), watch="model#.b"),
    Kind("submodule replaced", module="model# = nn.Sequential(nn.Tanh())", lines=("y = model#(y)",), put="model#[0] = $", pool=("nn.ReLU()", "nn.Sigmoid()", "nn.Softplus(beta=2.0)"), also=("model#.append(nn.Tanh())",),
         watch="str(model#)", is_writable=False),
    Kind("attribute of a module", module="model# = nn.LeakyReLU(0.1)", lines=("y = model#(y)",), put="model#.negative_slope = $", sort="float", watch="model#.negative_slope"),
    Kind("forward of a module replaced", module=MODEL, lines=("y = model#(y)",), put="model#.forward = lambda v: v * $", sort="float", watch="0", is_writable=False),
    Kind("state dict loaded", module=MODEL, lines=("y = model#(y)",), put="model#.load_state_dict({'weight': ndgrad.full((2, 2), $), 'bias': ndgrad.zeros(2)})", sort="float",
         watch="model#.state_dict()", is_writable=False),
    Kind("learning rate", module="p# = nn.Parameter(ndgrad.ones(2))\nopt# = optim.SGD([p#], lr=0.5)", lines=("y = y * opt#.param_groups[0]['lr']",
         "opt#.zero_grad(); (p# * x.detach()).sum().backward(); opt#.step()"), put="opt#.param_groups[0]['lr'] = $", sort="float", watch="p#, opt#.param_groups[0]['lr']"),
    Kind("betas of Adam", module="p# = nn.Parameter(ndgrad.ones(2))\nopt# = optim.Adam([p#], lr=0.5)", lines=("opt#.zero_grad(); (p# * x.detach()).sum().backward(); opt#.step(); y = y + p#.detach()",),
         put="opt#.param_groups[0]['betas'] = ($, 0.9)", pool=("0.5", "0.7"), also=("opt#.param_groups[0]['weight_decay'] = 0.5", "opt#.param_groups[0]['lr'] = 0.1"),
         watch="p#, opt#.state_dict()", is_writable=False),
    Kind("learning-rate schedule", module="p# = nn.Parameter(ndgrad.ones(2))\nopt# = optim.SGD([p#], lr=0.5)\nsched# = optim.lr_scheduler.StepLR(opt#, 1, 0.5)",
         lines=("opt#.zero_grad(); (p# * x.detach()).sum().backward(); opt#.step(); y = y * sched#.get_last_lr()[0]", "y = y * sched#.get_last_lr()[0]"), put="sched#.step()", watch="p#, opt#.param_groups[0]['lr'], sched#.last_epoch",
         is_writable=False),
    Kind("schedule by a function", module="p# = nn.Parameter(ndgrad.ones(2))\nopt# = optim.SGD([p#], lr=0.5)\nsched# = optim.lr_scheduler.LambdaLR(opt#, lambda n: 1 / (n + 1))",
         lines=("opt#.zero_grad(); (p# * x.detach()).sum().backward(); opt#.step()",), put="sched#.step()", also=("opt#.param_groups[0]['lr'] = 0.25",), watch="p#, opt#.param_groups[0]['lr']", is_writable=False),
    Kind("optimizer state", module="p# = nn.Parameter(ndgrad.ones(2))\nopt# = optim.SGD([p#], lr=0.5, momentum=0.9)", lines=("opt#.zero_grad(); (p# * x.detach()).sum().backward(); opt#.step()",),
         put="opt#.state.clear()", also=("opt#.load_state_dict(opt#.state_dict())", "opt#.add_param_group({'params': [nn.Parameter(ndgrad.ones(2))]})"), watch="p#, len(opt#.param_groups)", is_writable=False),
    Kind("module list", module="layers# = nn.ModuleList([nn.Tanh()])", lines=("for layer in layers#: y = layer(y)",), put="layers#.append(nn.ReLU())", also=("layers#.insert(0, nn.Sigmoid())",), watch="len(layers#)",
         is_writable=False),
    Kind("parameter list", module="ps# = nn.ParameterList([nn.Parameter(ndgrad.ones(2))])", lines=("for p in ps#: y = y * p",), put="ps#.append(nn.Parameter(ndgrad.full((2,), $)))", sort="float", watch="list(ps#)",
         is_writable=False),
    Kind("batch norm statistics", module="bn# = nn.BatchNorm1d(2)", lines=("y = y + bn#(ndgrad.stack([x, x * 2])).sum()",), put="bn#.train($)", sort="flag", also=("bn#.momentum = 0.5", "bn#.reset_running_stats()"),
         watch="bn#.running_mean, bn#.running_var, bn#.num_batches_tracked", is_writable=False),
    Kind("global hook of optimizers", module="seen# = []\np# = nn.Parameter(ndgrad.ones(2))\nopt# = optim.SGD([p#], lr=0.5)", lines=("opt#.zero_grad(); (p# * x.detach()).sum().backward(); opt#.step()",),
         put="opt#.register_step_post_hook(lambda *a: seen#.append($))", sort="float", watch="p#, seen#", is_writable=False),
    Kind("argument that is a number", lines=("y = y * k",), put="k = $", watch="0", is_writable=False),
    Kind("argument that is a list", lines=("y = y * ks[0] + len(ks)",), put="ks[0] = $", also=("ks.append(1.0)",), watch="ks"),
    Kind("argument that is an object", lines=("y = y * cfg.scale",), put="cfg.scale = $", also=("cfg = types.SimpleNamespace(scale=8.0)",), watch="vars(cfg)"),
    Kind("argument that is a NumPy array", lines=("y = y + float(data[0])", "y = y * ndgrad.from_numpy(data)"), put="data[0] = $", sort="float", watch="data"),
]  # fmt: skip

PLACES = [*VARIABLES, *CLASSES, *RECORDS, *CONTAINERS, *ARRAYS, *PROCESS, *FUNCTIONS, *TENSORS]
