"""`ndgrad completion`: completion scripts for shells, made from the parser."""

from __future__ import annotations

import argparse

from ndgrad._src.command_line import parser


def words() -> dict[str, list[str]]:
    """Return command -> options; the empty command has the commands and the common options."""
    top = parser()
    subparsers = next(a for a in top._actions if isinstance(a, argparse._SubParsersAction))
    found = {"": [*subparsers.choices, "--help", "--version"]}
    for name, command in subparsers.choices.items():
        found[name] = sorted({o for action in command._actions for o in action.option_strings if o.startswith("--")})
        for action in command._actions:
            found[name] += [str(choice) for choice in action.choices or ()]
    return found


def bash() -> str:
    cases = "\n".join(f'    {name}) words="{" ".join(options)}" ;;' for name, options in words().items() if name)
    return f"""_ndgrad() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" words
  case "${{COMP_WORDS[1]}}" in
{cases}
    *) words="{" ".join(words()[""])}" ;;
  esac
  [ "$COMP_CWORD" -eq 1 ] && words="{" ".join(words()[""])}"
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  [[ "$current" != -* && "$COMP_CWORD" -gt 1 ]] && COMPREPLY+=($(compgen -f -- "$current"))
}}
complete -o filenames -F _ndgrad ndgrad
"""


def zsh() -> str:
    return "autoload -U +X bashcompinit && bashcompinit\n" + bash()


def fish() -> str:
    lines = [f"complete -c ndgrad -n __fish_use_subcommand -f -a '{name}'" for name in words() if name]
    for name, options in words().items():
        for option in options if name else ():
            given = f"-l {option[2:]}" if option.startswith("--") else f"-f -a {option}"
            lines.append(f"complete -c ndgrad -n '__fish_seen_subcommand_from {name}' {given}")
    return "\n".join(lines) + "\n"


def run(options: argparse.Namespace) -> int:
    print({"bash": bash, "zsh": zsh, "fish": fish}[options.shell](), end="")
    return 0
