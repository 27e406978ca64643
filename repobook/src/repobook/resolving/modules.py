"""Imports and includes to files. A path that leaves the tree is outside; nothing is guessed from the disk."""

import posixpath
from collections import defaultdict
from collections.abc import Sequence
from pathlib import PurePosixPath

_PYTHON = (".py", "/__init__.py", ".pyi", "/__init__.pyi", ".pyi.in", "/__init__.pyi.in")
_SCRIPT = (
    "",
    ".ts",
    ".tsx",
    ".d.ts",
    ".js",
    ".jsx",
    ".mjs",
    ".cjs",
    ".mts",
    ".json",
    "/index.ts",
    "/index.tsx",
    "/index.js",
    "/index.mjs",
    "/index.jsx",
)


class Modules:
    def __init__(self, paths: dict[str, int], root_package: str = "") -> None:
        self.paths = paths
        self._root_package = root_package  # Go's package at the top of the tree
        self._by_name: dict[str, list[str]] = defaultdict(list)
        self._bases: dict[str, list[str]] = defaultdict(list)
        self._folders: dict[str, list[str]] = defaultdict(list)
        packages = {
            posixpath.dirname(p) for p in paths if p.endswith(("/__init__.py", "/__init__.pyi", "/__init__.pyi.in"))
        }
        for path in paths:
            folder, _, name = path.rpartition("/")
            self._by_name[name].append(path)
            if name.endswith(".go"):
                self._folders[folder].append(path)
            if name.endswith((".py", ".pyi")) and folder not in packages:
                self._add_base(name.partition(".")[0], folder)
        for package in packages:
            folder, _, name = package.rpartition("/")
            if folder not in packages:
                self._add_base(name, folder)
        # A folder of packages without __init__.py of its own (a namespace package) is reached from the root.
        for path in paths:
            first = path.partition("/")[0]
            if path.endswith(".py") and "" not in self._bases[first]:
                self._bases[first].append("")

    def _add_base(self, name: str, folder: str) -> None:
        if folder not in self._bases[name]:
            self._bases[name].append(folder)

    # ----- Python -------------------------------------------------------------------------------------------

    def python(self, module: str, importer: str) -> str | None:
        """The file of a module as `importer` names it, or None where it is outside the tree."""
        folder = posixpath.dirname(importer)
        if module.startswith("."):
            rest = module.lstrip(".")
            for _ in range(len(module) - len(rest) - 1):
                folder = posixpath.dirname(folder)
            return self._python_at(posixpath.join(folder, rest.replace(".", "/")) if rest else folder)
        relative = module.replace(".", "/")
        first = module.partition(".")[0]
        bases = self._bases.get(first)
        if not bases:
            return None
        if folder in bases:
            found = self._python_at(posixpath.join(folder, relative))
            if found is not None:
                return found
        for base in sorted(bases, key=lambda base: (-_count_shared_folders(base, folder), base.count("/"), base)):
            # A module beside a script elsewhere in the tree is not on this file's path.
            if posixpath.join(base, first) + ".py" in self.paths and base and not folder.startswith(base):
                continue
            found = self._python_at(posixpath.join(base, relative))
            if found is not None:
                return found
        return None

    def _python_at(self, path: str) -> str | None:
        for ending in _PYTHON:
            if path + ending in self.paths:
                return path + ending
        return None

    # ----- C family -----------------------------------------------------------------------------------------

    def include(self, text: str, importer: str) -> str | None:
        target = text.strip('<>" ')
        if not target or target.startswith("/"):
            return None
        folder = posixpath.dirname(importer)
        beside = posixpath.normpath(posixpath.join(folder, target))
        if not text.startswith("<") and beside in self.paths:
            return beside
        target = posixpath.normpath(target)
        if target.startswith(".."):
            return None
        if target in self.paths:
            return target
        if text.startswith("<") and "/" not in target:
            return None  # a system header, even if a file here has the same name
        ending = "/" + target
        named = self._by_name.get(posixpath.basename(target), ())
        found = [path for path in named if path.endswith(ending)]
        if not found:
            return _template(target, named)
        if "/" not in target and len(found) > 1 and not any(_count_shared_folders(path, folder) for path in found):
            return None
        return max(found, key=lambda path: (_count_shared_folders(path, importer), -path.count("/"), path))

    # ----- others -------------------------------------------------------------------------------------------

    def script(self, text: str, importer: str) -> str | None:
        """JavaScript and TypeScript: relative paths, and packages of the same repository by their folders."""
        if not text.startswith("."):
            return self._workspace(text)
        path = posixpath.normpath(posixpath.join(posixpath.dirname(importer), text))
        return None if path.startswith("..") else self._script_at(path)

    def _workspace(self, text: str) -> str | None:
        """`@scope/name` -> the entry of a folder `name` that has a package.json."""
        scope, _, name = text.partition("/") if text.startswith("@") else ("packages", "", text)
        ending = f"/{name}/package.json" if scope != "packages" else f"packages/{name}/package.json"
        if "/" in name:
            return None
        found = [path for path in self._by_name.get("package.json", ()) if path.endswith(ending)]
        if len(found) != 1:
            return None
        folder = posixpath.dirname(found[0])
        return self._script_at(folder + "/src/index") or self._script_at(folder + "/index")

    def _script_at(self, path: str) -> str | None:
        for ending in _SCRIPT:
            if path + ending in self.paths:
                return path + ending
        stem = path.removesuffix(".js").removesuffix(".mjs")
        for ending in (".ts", ".tsx"):
            if stem + ending in self.paths:
                return stem + ending
        return None

    def find_dotted(self, text: str, extension: str) -> str | None:
        """Java: the package path ends a file's path."""
        parts = text.split(".")
        for stop in range(len(parts), max(0, len(parts) - 2), -1):
            ending = "/".join(parts[:stop]) + extension
            for path in self._by_name.get(posixpath.basename(ending), ()):
                if path == ending or path.endswith("/" + ending):
                    return path
        return None

    def go(self, text: str) -> str | None:
        """Go: the longest folder of the tree that ends the import path; its first file stands for the package."""
        parts = text.split("/")
        for start in range(len(parts)):
            folder = "/".join(parts[start:])
            if folder in self._folders and (start > 0 or len(parts) > 1):
                return min(self._folders[folder])
        if self._root_package and parts[-1] == self._root_package and "." in parts[0]:
            return min(self._folders[""])
        return None

    def rust(self, text: str, importer: str) -> str | None:
        """The file that a path of Rust leads into: the longest module of it that has a file."""
        parts = [part for part in text.split("::") if part]
        if not parts:
            return None
        folder = self._rust_inside(importer)
        if parts[0] == "crate":
            root = self._crate(posixpath.dirname(importer))
            return self._rust_file(root, parts[1:]) or self._rust_home(root)
        if parts[0] in ("self", "super"):
            while parts and parts[0] in ("self", "super"):
                if parts[0] == "super":
                    folder = posixpath.dirname(folder)
                parts = parts[1:]
            return self._rust_file(folder, parts) or self._rust_home(folder)
        # Up to the edition of 2015 a path starts at the root of the crate.
        crate = self._crate(posixpath.dirname(importer))
        return self._rust_file(folder, parts) or self._rust_file(crate, parts) or self._other_crate(parts)

    def rust_module(self, qualifier: str, importer: str) -> str | None:
        """The file of the module that a qualifier names; None for a type or a module without a file of its own."""
        parts = [part for part in qualifier.split("::") if part]
        found = self.rust(qualifier, importer)
        if found is None or not parts:
            return None
        if parts[-1] in ("self", "super", "crate"):
            return found
        return found if self._rust_inside(found).rpartition("/")[2] == parts[-1] else None

    def _rust_inside(self, path: str) -> str:
        """The folder that the modules inside a file have theirs in."""
        folder, stem = posixpath.dirname(path), PurePosixPath(path).stem
        return folder if stem in ("mod", "lib", "main") else posixpath.join(folder, stem)

    def _rust_home(self, folder: str) -> str | None:
        """The file of the module whose inner modules a folder holds."""
        for path in (f"{folder}.rs", f"{folder}/mod.rs", f"{folder}/lib.rs", f"{folder}/main.rs"):
            if path.lstrip("/") in self.paths:
                return path.lstrip("/")
        return None

    def _other_crate(self, parts: list[str]) -> str | None:
        """A crate of the same repository, by the name of its folder."""
        name = parts[0].replace("_", "-")
        found = [path for path in self._by_name.get("lib.rs", ()) if path.endswith(f"/{name}/src/lib.rs")]
        if len(found) != 1:
            return None
        return self._rust_file(posixpath.dirname(found[0]), parts[1:]) or found[0]

    def _crate(self, folder: str) -> str:
        """The folder of the crate that a folder of it belongs to."""
        while folder and not any(posixpath.join(folder, name) in self.paths for name in ("lib.rs", "main.rs")):
            folder = posixpath.dirname(folder)
        return folder

    def _rust_file(self, folder: str, parts: list[str]) -> str | None:
        for stop in range(len(parts), 0, -1):
            base = posixpath.join(folder, *parts[:stop])
            for ending in (".rs", "/mod.rs"):
                if base + ending in self.paths:
                    return base + ending
        return None

    def find_beside(self, text: str, importer: str) -> str | None:
        """Shell `source`, CMake `include`, Starlark `load`: a path from the file or from the root."""
        text = text.strip("\"' ")
        if text.startswith("//"):
            text = text[2:].replace(":", "/", 1).lstrip("/")
        elif text.startswith(":"):
            text = text[1:]
        elif text.startswith("@"):
            return None
        for base in (posixpath.dirname(importer), ""):
            path = posixpath.normpath(posixpath.join(base, text))
            for ending in ("", "/CMakeLists.txt", ".cmake"):
                if path + ending in self.paths:
                    return path + ending
        return None

    def resolve(self, kind: str, module: str, name: str, language: str, importer: str) -> str | None:
        """The file that an import of any language reaches."""
        if kind == "include":
            return self.include(module, importer)
        if language == "python":
            if kind == "from" and name and name != "*":
                joint = module if module.endswith(".") else module + "."
                found = self.python(joint + name, importer)
                owner = self.python(module, importer)
                # `from package import name`: a submodule only where the package itself does not come first.
                return found if owner is None else (owner if found is None else found)
            return self.python(module, importer)
        if language in ("javascript", "typescript", "tsx"):
            return self.script(module, importer)
        if language == "java":
            return self.find_dotted(module, ".java")
        if language == "go":
            return self.go(module)
        if language == "rust":
            return self.rust(module, importer)
        if kind in ("source", "load"):
            return self.find_beside(module, importer)
        return None


def _template(target: str, named: Sequence[str]) -> str | None:
    """The template that a build generates a header from. It has the name of the header and stands in a folder
    `templates`, below the first folder of the include if other files have the name too."""
    templates = [path for path in named if posixpath.dirname(path).endswith("/templates")]
    if len(named) > 1:
        first = target.partition("/")[0]
        templates = [path for path in templates if path.split("/")[-3:-2] == [first]]
    return templates[0] if len(templates) == 1 else None


def _count_shared_folders(path: str, other: str) -> int:
    """Number of leading folders that two paths have in common."""
    count = 0
    for one, two in zip(path.split("/"), other.split("/"), strict=False):
        if one != two:
            break
        count += 1
    return count
