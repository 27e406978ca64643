"""Settings of a repository: `repobook.toml` at its root, or `[tool.repobook]` of its pyproject.toml."""

import tomllib
from dataclasses import dataclass, fields
from pathlib import Path


class ConfigError(ValueError):
    """Bad input. The message is one line for the user."""


@dataclass(slots=True)
class Config:
    output: str = "book"
    include: tuple[str, ...] = ()  # folders or patterns; all where empty
    exclude: tuple[str, ...] = ()
    source: str = "embed"  # "embed" or "link": a page holds the text of its file, or a link to it
    embed_limit: int = 200_000  # bytes; larger files are linked
    max_file_size: int = 5_000_000  # bytes; larger files are read by their text, not parsed
    blank_macros: tuple[str, ...] = ()  # export macros that are defined outside the tree
    definers: tuple[str, ...] = ()  # macros that define by their arguments: "MY_TEST=test", "MY_LIBRARY=registration"
    test_patterns: tuple[str, ...] = ("test", "tests", "testing", "__tests__", "spec")  # folders of tests
    history: int = 20_000  # commits of git history to read; 0 for none
    source_url: str = ""  # e.g. https://host/owner/name/blob/main/{path}#L{line}; relative links where empty
    title: str = ""
    namespace_roots: tuple[str, ...] = ()  # folders that imports and includes start from, beside those found

    @classmethod
    def load(cls, root: Path) -> "Config":
        table: dict[str, object] = {}
        for name in ("repobook.toml", ".repobook.toml"):
            if (root / name).is_file():
                table = _load_toml(root / name)
                break
        else:
            if (root / "pyproject.toml").is_file():
                tool = _load_toml(root / "pyproject.toml").get("tool", {})
                found = tool.get("repobook", {}) if isinstance(tool, dict) else {}
                table = found if isinstance(found, dict) else {}
        return cls.from_table(table, str(root))

    @classmethod
    def from_table(cls, table: dict[str, object], where: str) -> "Config":
        known = {field.name: field for field in fields(cls)}
        config = cls()
        for key, value in table.items():
            name = key.replace("-", "_")
            if name not in known:
                raise ConfigError(
                    f"repobook: unknown setting {key!r} in {where}; known settings: {', '.join(sorted(known))}"
                )
            current = getattr(config, name)
            if isinstance(current, tuple) and isinstance(value, list) and all(isinstance(v, str) for v in value):
                value = tuple(value)
            if type(value) is not type(current):
                raise ConfigError(
                    f"repobook: setting {key!r} in {where} must be a {type(current).__name__}, not {value!r}"
                )
            if isinstance(value, int) and value < 0:
                raise ConfigError(f"repobook: setting {key!r} in {where} must be 0 or more, not {value}")
            setattr(config, name, value)
        for row in config.definers:
            name, mark, kind = row.partition("=")
            if not mark or not name.isidentifier() or kind not in ("test", "registration"):
                raise ConfigError(
                    f"repobook: {row!r} of 'definers' in {where} must read NAME=test or NAME=registration"
                )
        if config.source not in ("embed", "link"):
            raise ConfigError(f"repobook: setting 'source' in {where} must be 'embed' or 'link', not {config.source!r}")
        return config


def _load_toml(path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"repobook: cannot read {path}: {error}") from None
