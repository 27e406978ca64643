"""universal-ctags as an oracle: what it finds in C++ and Python has an entry here too."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Files, Repository

import repobook

Make = Callable[[Files], Repository]

CPP = """
#pragma once
#include <vector>
#define LIB_API __attribute__((visibility("default")))
#define SQUARE(x) ((x) * (x))
namespace lib::detail {
enum class Color : int { Red, Green = 2 };
typedef unsigned long size_type;
using list = std::vector<int>;
template <typename T, int N = 3>
class LIB_API Grid final : public Base<T> {
 public:
  explicit Grid(size_type n) : n_(n) {}
  ~Grid() override = default;
  T& operator[](size_type i) { return data_[i]; }
  static constexpr int kLimit = 4;
  template <class U> U cast() const { return U(n_); }
 private:
  size_type n_{0}, m_ = 1;
  T* data_ = nullptr;
  union { int a; float b; } value_;
  int (*callback_)(int) = nullptr;
};
struct LIB_API Plain { int x, y; };
static int counter = 0;
const char* const kNames[] = {"a", "b"};
LIB_API int free_function(int a, const Plain& p) noexcept { return SQUARE(a) + p.x; }
template <> int Grid<int>::cast<int>() const { return 1; }
}
extern "C" { int c_function(void) { return 1; } }
int lib::detail::Plain::* pointer;
"""


@pytest.mark.skipif(shutil.which("ctags") is None, reason="needs universal-ctags")
def test_symbols_of_ctags_have_entries(make_repository: Make) -> None:
    source = Path(repobook.__file__).parent
    files: Files = {str(path.relative_to(source)): path.read_bytes() for path in source.rglob("*.py")}
    repository = make_repository({**files, "lib.h": CPP})
    repository.build()
    command = [
        "ctags",
        "-R",
        "--languages=C++,Python",
        "--langmap=C++:+.h",
        "--fields=nKl",
        "--excmd=number",
        "--exclude=book",
        "-f",
        "-",
        ".",
    ]
    done = subprocess.run(command, cwd=repository.root, capture_output=True, text=True, check=True)
    have = {
        (path, name.replace(" ", ""))
        for path, name in repository.db.execute("SELECT f.path, s.name FROM symbols s JOIN files f ON f.id=s.id>>20")
    }
    wanted = set()
    for line in done.stdout.splitlines():
        name, path, _, kind, *rest = line.split("\t")
        if ("language:Python" in rest and kind not in ("class", "function", "member", "variable")) or name.startswith(
            ("__anon", "anonFunc")
        ):
            continue
        wanted.add((path.removeprefix("./"), name.replace(" ", "")))
    missing = wanted - have
    assert len(wanted) > 500
    assert len(missing) <= 0.02 * len(wanted), sorted(missing)
    assert not [name for path, name in missing if path == "lib.h"]


def test_identifiers_of_a_page_are_names_of_its_file(make_repository: Make) -> None:
    source = Path(repobook.__file__).parent
    files: Files = {str(path.relative_to(source)): path.read_bytes() for path in source.rglob("*.py")}
    repository = make_repository({**files, "lib.h": CPP})
    repository.build()
    texts = {path: data.decode() if isinstance(data, bytes) else data for path, data in {**files, "lib.h": CPP}.items()}
    rows = repository.db.execute(
        "SELECT f.path, s.name, s.line FROM symbols s JOIN files f ON f.id=s.id>>20 WHERE s.kind<>'file'"
    ).fetchall()
    wrong = [
        (path, name, line)
        for path, name, line in rows
        if name.removeprefix("~") not in texts[path].splitlines()[line - 1]
    ]
    assert len(rows) > 900
    assert len(wrong) <= 0.01 * len(rows), wrong[:20]
