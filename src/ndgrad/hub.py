"""torch's `hub`: models of a folder that has a `hubconf.py`, and weights in a local cache.

Nothing is downloaded. `load`, `list` and `help` read local folders. A repository on GitHub, or a URL whose file is not
in the cache, raises an error that names the folder or file to provide.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Self
from urllib.parse import urlparse

from ndgrad._src.foundations.atomic_files import open_replacement
from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]

_CONFIG = "hubconf.py"
#: The hash in the name of a file of weights: `net-1a2b3c4d.pth`.
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
_dir: str | None = None


class _SilentProgress:
    """The part of `tqdm` that downloads use, without output, for environments without that package."""

    def __init__(self, iterable: Any = None, **_: Any) -> None:
        self.iterable, self.n, self.disable = iterable, 0, True

    def __iter__(self) -> Any:
        for item in self.iterable:
            self.n += 1
            yield item

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def update(self, n: int = 1) -> None:
        """Count."""
        self.n += n

    def close(self) -> None:
        """Do nothing."""


def __getattr__(name: str) -> Any:
    if name != "tqdm":
        raise AttributeError(name)
    try:
        return importlib.import_module("tqdm.auto").tqdm
    except ImportError:
        return _SilentProgress


def get_dir() -> str:
    """Return the folder of cached files: the one set by `set_dir`, or `hub` in `$TORCH_HOME` or in torch's cache.

    >>> import ndgrad
    >>> ndgrad.hub.set_dir("weights")
    >>> ndgrad.hub.get_dir()
    'weights'
    >>> ndgrad.hub.set_dir(None)
    """
    return _dir if _dir is not None else str(Path(_get_torch_home()) / "hub")


def _get_torch_home() -> str:
    """Return torch's folder of caches, in which libraries keep files of their own."""
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return str(Path(os.environ.get("TORCH_HOME", Path(cache) / "torch")).expanduser())


def set_dir(d: str | os.PathLike[str] | None) -> None:
    """Set the folder of cached files; None resets it.

    Args:
        d: path of the folder.
    """
    global _dir
    _dir = None if d is None else str(Path(d).expanduser())


def _import_folder(function: str, repo: str | os.PathLike[str], source: str) -> ModuleType:
    """Import the `hubconf.py` of a local folder, or of a repository that is in the cache folder."""
    folder = Path(repo)
    if source == "github":
        owner_name, _, branch = str(repo).partition(":")
        pattern = f"{owner_name.replace('/', '_')}_{branch.replace('/', '_') or '*'}"
        found = sorted(Path(get_dir()).glob(pattern))
        if not found:
            raise RuntimeError(
                f"hub.{function}({str(repo)!r}): nothing is downloaded, and {get_dir()} has no folder {pattern!r}. "
                "Fetch the repository there, or give its folder with source='local'. [nd-absent]"
            )
        folder = found[0]
    elif source != "local":
        raise ValueError(f"Unknown source: {source!r}. Allowed values: 'github' | 'local'. [nd-option]")
    path = folder / _CONFIG
    if not path.is_file():
        raise FileNotFoundError(
            f"hub.{function}: there is no {_CONFIG} in {folder}. Give the folder that has it. [nd-path]"
        )
    spec = importlib.util.spec_from_file_location(_CONFIG, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(folder))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(folder))
    missing = [name for name in getattr(module, "dependencies", ()) if importlib.util.find_spec(name) is None]
    if missing:
        raise RuntimeError(f"Missing dependencies: {', '.join(missing)}. Install them. [nd-absent]")
    return module


def _find_entry(module: ModuleType, name: str) -> Any:
    if not isinstance(name, str):
        raise ValueError("Invalid input: model should be a string of function name. [nd-type]")
    found = getattr(module, name, None)
    if not callable(found):
        raise RuntimeError(f"Cannot find callable {name} in hubconf. Call hub.list() for the names. [nd-key]")
    return found


def load(
    repo_or_dir: str | os.PathLike[str], model: str, *args: Any, source: str = "github", trust_repo: Any = None,
    force_reload: bool = False, verbose: bool = True, skip_validation: bool = False, **kwargs: Any,
) -> Any:  # fmt: skip
    """Call the function `model` of a folder's `hubconf.py`; with source="github", of a folder in `get_dir()`.

    Args:
        repo_or_dir: `"owner/name"` or `"owner/name:branch"` of a repository in `get_dir()`, or the path of a folder.
        model: name of a function.
        args, kwargs: arguments of the function.
        source: `"github"` or `"local"`: kind of the first argument.
        trust_repo: accepted as in torch; has no effect, because nothing is downloaded.
        force_reload: accepted as in torch; has no effect, because nothing is downloaded.
        verbose: accepted as in torch; has no effect, because nothing is downloaded.
        skip_validation: accepted as in torch; has no effect, because nothing is downloaded.
    """
    return _find_entry(_import_folder("load", repo_or_dir, source), model)(*args, **kwargs)


def list(
    github: str | os.PathLike[str], force_reload: bool = False, skip_validation: bool = False, trust_repo: Any = None,
    verbose: bool = True, source: str | None = None,
) -> Any:  # fmt: skip
    """Return the names of the functions of a `hubconf.py`. A path of a folder is read in place.

    Args:
        github: `"owner/name"` or `"owner/name:branch"` of a repository in `get_dir()`, or the path of a folder.
        force_reload: accepted as in torch; has no effect, because nothing is downloaded.
        skip_validation: accepted as in torch; has no effect, because nothing is downloaded.
        trust_repo: accepted as in torch; has no effect, because nothing is downloaded.
        verbose: accepted as in torch; has no effect, because nothing is downloaded.
        source: `"github"` or `"local"`: kind of the first argument. None means local if there is such a folder.
    """
    module = _import_folder("list", github, source or ("local" if Path(github).is_dir() else "github"))
    return [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]


def help(
    github: str | os.PathLike[str], model: str, force_reload: bool = False, skip_validation: bool = False,
    trust_repo: Any = None, source: str | None = None,
) -> str | None:  # fmt: skip
    """Return the docstring of a function of a `hubconf.py`.

    Args:
        github: `"owner/name"` or `"owner/name:branch"` of a repository in `get_dir()`, or the path of a folder.
        model: name of a function.
        force_reload: accepted as in torch; has no effect, because nothing is downloaded.
        skip_validation: accepted as in torch; has no effect, because nothing is downloaded.
        trust_repo: accepted as in torch; has no effect, because nothing is downloaded.
        source: `"github"` or `"local"`: kind of the first argument. None means local if there is such a folder.
    """
    module = _import_folder("help", github, source or ("local" if Path(github).is_dir() else "github"))
    text: str | None = _find_entry(module, model).__doc__
    return text


def download_url_to_file(
    url: str, dst: str | os.PathLike[str], hash_prefix: str | None = None, progress: bool = True
) -> None:
    """Copy the file of a `file:` URL, or of a path, to another path. Nothing is downloaded.

    Args:
        url: path, or URL with the scheme `file`.
        dst: path of the copy.
        hash_prefix: first digits of the SHA-256 of the file, which is then checked.
        progress: accepted as in torch; has no effect, because nothing is downloaded.

    Raises:
        RuntimeError: if the URL has another scheme, or the hash differs.
    """
    parts = urlparse(url)
    source = Path(parts.path)
    if parts.scheme not in ("", "file"):
        raise RuntimeError(
            f"hub.download_url_to_file({url!r}): nothing is downloaded. Fetch the file to {os.fspath(dst)!r}. "
            "[nd-absent]"
        )
    if hash_prefix is not None:
        _check_digits(source, hash_prefix)
    with open_replacement(dst) as file:
        file.write(source.read_bytes())


def load_state_dict_from_url(
    url: str, model_dir: str | os.PathLike[str] | None = None, map_location: Any = None, progress: bool = True,
    check_hash: bool = False, file_name: str | None = None, weights_only: bool = False,
) -> Any:  # fmt: skip
    """Load the weights of a URL from the cache folder (`model_dir`, or `checkpoints` in `get_dir()`).

    Args:
        url: address of the file. Its last part is the name in the cache folder. A path of a file is read in place.
        model_dir: cache folder.
        map_location: device of the tensors, as in `ndgrad.load`.
        progress: accepted as in torch; has no effect, because nothing is downloaded.
        check_hash: whether the name of the file is checked against a hash of its bytes.
        file_name: name of the file, instead of that in the URL.
        weights_only: whether the file may only hold tensors and plain values, as in `ndgrad.load`.

    Raises:
        RuntimeError: if the file is not in the cache folder.
    """
    from ndgrad.serialization import load  # few programs load weights

    parts = urlparse(url)
    folder = Path(model_dir) if model_dir is not None else Path(get_dir()) / "checkpoints"
    path = folder / (file_name or Path(parts.path).name)
    if parts.scheme in ("", "file") and Path(parts.path).is_file():
        path = Path(parts.path)
    if not path.is_file():
        raise RuntimeError(
            f"hub.load_state_dict_from_url({url!r}): nothing is downloaded, and {path} is not there. Fetch the file to "
            "that path. [nd-absent]"
        )
    if check_hash:
        _check_hash(path)
    return load(path, map_location=map_location, weights_only=weights_only)


def _check_hash(path: Path) -> None:
    """Compare a file's SHA-256 with the digits at the end of its name, as in `resnet18-5c106cde.pth`."""
    _check_digits(path, path.stem.rpartition("-")[2])


def _check_digits(path: Path, digits: str) -> None:
    import hashlib  # rarely needed

    if not hashlib.sha256(path.read_bytes()).hexdigest().startswith(digits):
        raise RuntimeError(f'invalid hash value (expected "{digits}") of {path}. Fetch it again. [nd-file-damaged]')


_refuse_absent(__name__)
