"""Pages that explain: the first paragraph, methods, custom functions, kernels, tests, findings, chapters."""

import re
import subprocess
from collections.abc import Callable

import pytest
from conftest import Files, Repository

from repobook import check
from repobook.pages.readme import opening_paragraphs
from repobook.pages.wording import join_words, opening_sentence

Make = Callable[[Files], Repository]

PROJECT: Files = {
    "README.md": "# Shop\n\n[![badge](x)](y)\n\n**Shop** sells things to [people](http://x) who want them.\n\n"
    "It has a till and a shelf, and both are written in Python.\n\n## Licence\n\nLicensed under the MIT licence.\n",
    "pyproject.toml": '[project]\nname = "shop"\n\n[project.scripts]\nshop-till = "shop.till:main"\n',
    "shop/__init__.py": '"""Sells things to people."""\nfrom shop.till import Till\n',
    "shop/shelf.py": '"""\nshop.shelf\n~~~~~~~~~~\n\nThe shelf holds what is for sale. It is long.\n"""\n\n\n'
    'class Shelf:\n    """A board with things."""\n\n    def take(self, name):\n        return find(self, name)\n\n\n'
    "def find(shelf, name):\n    return name\n",
    "shop/till.py": '"""The till counts money."""\nfrom shop.shelf import Shelf\n\n\nclass Till(Shelf):\n'
    "    def count(self, coins):\n        total = 0\n        for coin in coins:\n            if coin:\n"
    "                total += coin\n        return total\n\n    def pay(self, name):\n        return self.count([self.take(name)])\n\n\n"
    "def main():\n    return Till().pay('bread')\n",
    "tests/test_till.py": "from shop.till import Till\nfrom tests.helper import make_till\n\n\nclass FakeTill(Till):\n"
    "    pass\n\n\nclass TestTill:\n    def setup_method(self):\n        self.till = Till()\n\n"
    "    def test_count(self):\n        class Inner(Till):\n            pass\n        assert Till().count([1]) == 1\n\n\n"
    "def test_pay():\n    assert Till().pay(2) == 2\n",
    "tests/helper.py": "from shop.till import Till\n\n\ndef make_till():\n    return Till()\n",
}


def section(page: str, title: str) -> str:
    return page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def plain(text: str) -> str:
    """A page's text without the targets of links."""
    return re.sub(r"\]\([^()]*\)", "]", text)


@pytest.fixture
def shop(make_repository: Make) -> Repository:
    repository = make_repository(PROJECT)
    repository.build()
    return repository


def test_the_first_paragraph_explains_a_file(shop: Repository) -> None:
    first = plain(shop.page("shop/shelf.py_docs.md").partition("\n## ")[0]).splitlines()[-1]
    assert first == (
        "The shelf holds what is for sale. Its type is [`Shelf`]. [`till.py`] uses it. "
        "[`test_till.py`] tests it through other code."
    )
    till = plain(shop.page("shop/till.py_docs.md").partition("\n## ")[0])
    assert "The till counts money. Its type is [`Till`]." in till
    assert "It builds on [`shelf.py`] (`Shelf`, `take`)." in till and "[`test_till.py`] tests it." in till
    tests = plain(shop.page("tests/test_till.py_docs.md").partition("\n## ")[0])
    assert "Tests of `till.py`: 2 tests." in tests
    assert "Part of the tests; no test was recognized in it." in shop.page("tests/helper.py_docs.md")


def test_methods_are_full_entries(shop: Repository) -> None:
    entry = plain(shop.page("shop/till.py_docs.md")).partition("`Till.count`\n")[2].partition("#####")[0]
    assert "complexity 3, nesting 2" in entry and "def count(self, coins)" in entry
    assert "Used by: " in entry and "[`Till.pay`]" in entry
    pay = plain(shop.page("shop/till.py_docs.md")).partition("`Till.pay`\n")[2].partition("#### ")[0]
    assert "Calls [`Shelf.take`], [`Till.count`]" in pay


def test_only_tests_are_listed_as_tests(shop: Repository) -> None:
    text = plain(section(shop.page("shop/till.py_docs.md"), "Testing & usage"))
    tests = text.partition("**Tests that use it** (2):")[2].partition("**Test code")[0]
    assert "[`TestTill.test_count`]" in tests and "[`test_pay`]" in tests
    assert "Inner" not in tests and "setup_method" not in tests and "FakeTill" not in tests
    helpers = text.partition("**Test code that is no test itself**: ")[2].splitlines()[0]
    assert "FakeTill" in helpers and "make_till" in helpers and "TestTill.setup_method" in helpers
    assert list(check.dead_links(shop.output)) == []


def test_before_a_change_names_dependents_and_a_command(shop: Repository) -> None:
    text = plain(section(shop.page("shop/shelf.py_docs.md"), "Before a change"))
    assert "**Depends on it** (1 file):\n\n- [`shop/till.py`]: " in text and "`Shelf`" in text
    assert (
        "**Tests to run** (they reach it through other code):\n\n```bash\npython -m pytest tests/test_till.py\n```"
        in text
    )
    assert "python -m pytest tests/test_till.py" in section(shop.page("tests/test_till.py_docs.md"), "Before a change")


def test_a_use_by_name_alone_is_no_statement(make_repository: Make) -> None:
    repository = make_repository(
        {
            "shelf.py": "class Shelf:\n    def rearrange(self): ...\n",
            "other.py": "def go(thing):\n    return thing.rearrange()\n",
            "tests/test_other.py": "def test_go(thing):\n    thing.rearrange()\n",
        }
    )
    repository.build()
    page = plain(repository.page("shelf.py_docs.md"))
    first = page.partition("\n## ")[0].splitlines()[-1]
    assert first == "Its type is [`Shelf`]. [`test_other.py`] uses names like those that it defines."
    assert "- [`other.py`]: 1 place, by name only (`Shelf.rearrange`)" in section(page, "Before a change")


def test_before_a_change_names_what_changed_with_it(make_repository: Make) -> None:
    repository = make_repository({"a.py": "x = 1\n", "b.py": "y = 1\n", "c.py": "z = 1\n"})

    def git(*arguments: str) -> None:
        command = ["git", "-C", str(repository.root), "-c", "user.name=Ann", "-c", "user.email=a@b.c", *arguments]
        subprocess.run(command, check=True, capture_output=True)

    git("init", "-q")
    for number in range(3):
        for name in ("a.py", "b.py"):
            (repository.root / name).write_text(f"x = {number}\n")
        git("add", ".")
        git("commit", "-qm", str(number))
    repository.build()
    text = plain(section(repository.page("a.py_docs.md"), "Before a change"))
    assert "**Changed with it before**:\n\n- [`b.py`]: in 3 of 3 changes\n" in text and "c.py" not in text


COMMANDS: list[tuple[Files, str, str]] = [
    ({"go.mod": "module m\n", "a/x.go": "package a\n\nfunc Go() {}\n", "a/x_test.go": "package a\n\nfunc TestGo(t *T) {\n\tGo()\n}\n"}, "a/x.go", "go test ./a"),
    ({"vitest.config.ts": "export default {}\n", "src/x.ts": "export function go() {}\n", "src/x.spec.ts": "import { go } from './x'\ntest('a', () => go())\n"}, "src/x.ts", "npx vitest run src/x.spec.ts"),
    ({"package.json": "{}\n", "x.js": "export function go() {}\n", "x.test.js": "import { go } from './x'\ngo()\n"}, "x.js", "npm test -- x.test.js"),
    ({"c/Cargo.toml": "[package]\n", "c/src/lib.rs": "pub fn go_there() {}\n\nmod tests {\n    fn goes() {}\n}\n"}, "c/src/lib.rs", "cargo test --manifest-path c/Cargo.toml"),
    ({"a b.py": "def go_there(): ...\n", "tests/test_a b.py": "from a import go_there\ndef test_go():\n    go_there()\n"}, "a b.py", "python -m pytest 'tests/test_a b.py'"),
]  # fmt: skip


@pytest.mark.parametrize(("files", "path", "command"), COMMANDS, ids=[row[2] for row in COMMANDS])
def test_the_command_fits_the_language(make_repository: Make, files: Files, path: str, command: str) -> None:
    repository = make_repository(files)
    repository.build()
    assert f"```bash\n{command}\n```" in section(repository.page(f"{path}_docs.md"), "Before a change")


def test_the_context_of_custom_functions_is_known(make_repository: Make) -> None:
    source = (
        "from torch.autograd import Function\n\n\nclass Scale(Function):\n    @staticmethod\n"
        "    def forward(ctx, x, factor):\n        ctx.factor = factor\n        ctx.save_for_backward(x, f(x, (1, 2)))\n"
        "        ctx.mark_dirty(x)\n        return x * factor\n\n    @staticmethod\n    def backward(ctx, grad):\n"
        "        x, y = ctx.saved_tensors\n        return grad * ctx.factor, None\n\n\n"
        "class Other:\n    def forward(self, x):\n        self.a = x\n    def backward(self, x):\n        return self.a\n\n\n"
        "def scale(x):\n    return Scale.apply(x, 2)\n"
    )
    repository = make_repository({"scale.py": source})
    repository.build()
    page = plain(repository.page("scale.py_docs.md"))
    entry = page.partition("class `Scale`")[2].partition("#### ")[0]
    assert "**Custom autograd function**: callers use `Scale.apply`" in entry
    assert "[line 7]: `ctx.factor` is set in `forward` (line 7) and read in `backward` (line 15)" in entry
    assert "[line 8]: `forward` saves `x, f(x, (1, 2))` for `backward`" in entry
    assert "`ctx.saved_tensors` is read in `backward` (line 14)" in entry and "marks `x` as changed in place" in entry
    assert "Used by: [`scale`]" in entry
    assert page.count("**Custom autograd function**") == 1


def test_kernels_show_launches_shared_memory_and_callers(make_repository: Make) -> None:
    source = (
        "template <typename T>\n__global__ void add_kernel(T* x, int n) {\n  extern __shared__ char buffer[];\n"
        "  __shared__ float sums[32];\n  x[0] = n;\n}\n\n__global__ void idle() {}\n\n"
        "// old<<<1, 2>>>();\nvoid add(float* x, int n) {\n"
        "  add_kernel<float><<<dim3(n, 1), 256, 4 * sizeof(float), stream>>>(x, n);\n  idle<<<1, 1>>>();\n}\n"
        "int shift(int a) { return a << 2; }\n"
    )
    repository = make_repository({"add.cu": source})
    repository.build()
    page = plain(repository.page("add.cu_docs.md"))
    kernels = page.partition("### Kernels\n")[2].partition("\n### ")[0]
    assert (
        "- launched at [line 12] in `add`: grid `dim3(n, 1)`, block `256`, shared memory `4 * sizeof(float)`, stream `stream`"
        in kernels
    )
    assert "- shared memory (sized at launch, [line 3]): `char buffer[]`" in kernels
    assert "- shared memory ([line 4]): `float sums[32]`" in kernels
    assert "- launched at [line 13] in `add`: grid `1`, block `1`" in kernels and "old" not in kernels
    assert "by the kernels [`add_kernel`] and [`idle`]" in page.partition("\n## ")[0]


def test_equal_findings_are_one_line_and_serious_ones_come_first(make_repository: Make) -> None:
    casts = "".join(f"void f{n}(char* p) {{ use(reinterpret_cast<int*>(p)); }}\n" for n in range(80))
    repository = make_repository(
        {
            "a.cpp": casts
            + "void g(char* p) { strcpy(p, p); memcpy(p, p, 1); }\nvoid h(O* o) { Py_INCREF(o); }\nvoid i(O* o) { Py_DECREF(o); }\n"
        }
    )
    repository.build()
    text = plain(section(repository.page("a.cpp_docs.md"), "Security & safety"))
    assert "80 places: lines [1], [2]" in text and text.count("reinterprets memory") == 1
    assert text.count("counted by hand") == 1 and "by `Py_INCREF` and `Py_DECREF` (lines [82] and [83]" in text
    places = [text.index(words) for words in ("Look at these first", "Unchecked size", "Worth a check", "Raw memory", "For orientation", "Cast")]  # fmt: skip
    assert places == sorted(places)


def test_the_book_has_chapters(shop: Repository) -> None:
    page = plain(shop.page("comprehensive_book.md"))
    titles = re.findall(r"^## \d\. (.*)$", page, re.M)
    assert titles[:5] == ["What it is", "Entry points", "Ten files to read first", "The parts", "How the parts depend on each other"]  # fmt: skip
    assert "Shop sells things to people who want them.\n\nIt has a till and a shelf" in page and "MIT" not in page
    entries = page.partition("Entry points\n")[2].partition("\n## ")[0]
    assert "command `shop-till`" in entries and "[`shop/till.py`]: [`main`]" in entries
    assert "- [`shop/__init__.py`]: front door of its package" in entries
    first = re.findall(r"^- \[`(.*?)`\]", page.partition("read first\n")[2].partition("\n## ")[0], re.M)
    assert first[0] == "shop/__init__.py" and {"shop/till.py", "shop/shelf.py"} <= set(first)
    assert not any(path.startswith("tests/") for path in first)
    parts = page.partition("The parts\n")[2].partition("\n## ")[0]
    assert "### [`shop/`]\n\nSells things to people. Other files use [`till.py`] (`Till`)" in parts
    assert "[`tests/`] imports from it. 3 files, 37 lines of Python." in parts
    assert re.search(r'p0\["shop"\]\n  p1\["tests"\]\n  p1 -->\|\d+\| p0', page)
    assert "### [`shop/`]" in plain(shop.page("doc.md"))
    assert list(check.dead_links(shop.output)) == []


def test_a_newer_repobook_writes_the_pages_anew(shop: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shop.build().written == 0
    monkeypatch.setattr("repobook.pages.writer._maker", lambda: "another")
    monkeypatch.setattr("repobook.pages.file_page.summary", lambda context, links: "Another summary.\n")
    assert shop.build().written >= len(PROJECT)
    assert "Another summary." in shop.page("shop/till.py_docs.md")


SENTENCES = [
    ("requests.sessions\n~~~~~~~~~~~~~~~~~\n\nThis module has sessions. And more.", "This module has sessions."),
    ("=====\nTitle\n=====\n\nIt does one thing, e.g. this one, well", "It does one thing, e.g. this one, well"),
    ("- bodyclose\n- depguard\n- dogsled", ""),
    (":copyright: (c) 2020 by them\n\nUses :class:`~a.Session` and ``get`` often.", "Uses `a.Session` and `get` often."),
    ("Copyright of the authors", ""),
    ("It takes the following options:", ""),
    ("name", ""),
    ("An implementation of the trait for\n[PCRE2](http://x) and others.", "An implementation of the trait for PCRE2 and others."),
    ("Contains the [`Array`] and [`List`][list] traits.", "Contains the `Array` and `List` traits."),
    ("We _**really**_ mean **this** one.", "We really mean this one."),
    ("", ""),
]  # fmt: skip


@pytest.mark.parametrize(("text", "sentence"), SENTENCES)
def test_the_opening_sentence_of_a_text(text: str, sentence: str) -> None:
    assert opening_sentence(text) == sentence


def test_the_opening_paragraphs_of_a_readme() -> None:
    text = (
        "tool (t)\n--------\ntool is a search tool that looks for patterns in files.\n\n```console\n$ tool\nnot this text of code, it is code\n```\n\n"
        "<p><b>Documentation</b>: <a href='x'>Python</a> | <a href='y'>Rust</a> and the user guide</p>\n\n"
        "* a list is no paragraph at all, however long it becomes\n\n<p align='center'><img src='x'></p>\n\n"
        "The second paragraph of this text is prose as well.\n\n### Usage\n\nThis paragraph stands in another section of it.\n"
    )
    assert opening_paragraphs(text) == [
        "tool is a search tool that looks for patterns in files.",
        "The second paragraph of this text is prose as well.",
    ]


def test_words_are_joined_as_in_a_sentence() -> None:
    assert join_words(["a"]) == "a" and join_words(["a", "b", "c"]) == "a, b and c"
    assert join_words(["a", "b", "c", "d"], 2) == "a, b and 2 more"


@pytest.mark.parametrize("between", ["```\ncode\n```\n\n![a picture](x.png)\n", "![a picture](x.png)\n", "| a | b |\n"])
def test_a_paragraph_announces_only_the_block_that_follows_it(between: str) -> None:
    text = f"# Tool\n\nTool is a package for arrays with many dimensions. It compiles functions to native code:\n\n{between}\n* **Right.** It raises.\n* **Fast.** It is.\n"
    assert opening_paragraphs(text) == ["Tool is a package for arrays with many dimensions."]


def test_a_list_that_a_paragraph_announces_belongs_to_it() -> None:
    text = (
        "# Tool\n\nTool is a package that provides two features:\n- Fast **arrays** with\n  many dimensions\n- Networks.\n\n"
        "Some other text is here. It has options:\n\n| a | b |\n|---|---|\n"
    )
    assert opening_paragraphs(text) == [
        "Tool is a package that provides two features: Fast arrays with many dimensions; Networks.",
    ]
    assert opening_paragraphs(text.replace("Some", "Some very long and interesting")) == [
        "Tool is a package that provides two features: Fast arrays with many dimensions; Networks.",
        "Some very long and interesting other text is here.",
    ]
