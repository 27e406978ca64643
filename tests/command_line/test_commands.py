"""The command line: what each command prints, and what it says when it cannot."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ndgrad._src.command_line import main
from ndgrad._src.command_line.completion import words
from ndgrad._src.foundations.error_codes import entries

MODEL = """
import numpy as np
import ndgrad

def loss(w, x):
    return ((w * x).sin() ** 2).sum()

def pair(w):
    return w.exp(), {"a": w.sum(), "n": 3}

def energy(q):
    return np.sum(q**2) + np.exp(-q[0])

def constant(x):
    return ndgrad.ones(2)

def number(x):
    return 3.0

def scaled(x, factor=2.0):
    return (x * factor).sum()

def whole(n):
    return n.sum()

class Wrong(ndgrad.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        return 3 * g * ctx.saved_tensors[0]

class WrongForward(Wrong):
    @staticmethod
    def backward(ctx, g):
        return 2 * g * ctx.saved_tensors[0]

    @staticmethod
    def jvp(ctx, t):
        return t

def wrong_forward(x):
    return WrongForward.apply(x).sum()

def not_a_number(x):
    return (x - x.detach()).sqrt().sum()

def noisy(x):
    return (x * ndgrad.randn(3)).sum()

async def later(x):
    return x

def complex_loss(z):
    return ((z * z).real + z.abs()).sum()

def wrong(x):
    return Wrong.apply(x).sum()

if __name__ == "__main__":
    import sys
    x = ndgrad.ones(10, requires_grad=True)
    (x.exp() * x).sum().backward()
    print("arguments", sys.argv[1:])
    sys.exit(int(sys.argv[1]) if sys.argv[1:] else 0)
"""


@pytest.fixture
def model(tmp_path, monkeypatch):
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    yield "model.py"
    sys.modules.pop("model", None)


@pytest.mark.parametrize("function", ["loss", "pair", "energy", "scaled"])
def test_check_agrees_with_differences(model, function, capsys):
    assert main(["check", f"{model}:{function}", "--second"]) == 0
    shown = capsys.readouterr().out
    assert "The gradients agree." in shown
    assert "WRONG" not in shown


def test_check_takes_shapes_and_inputs(model, capsys):
    assert main(["check", f"{model}:loss", "--shape", "4,3", "--shape", "3"]) == 0
    assert "loss(w (4, 3), x (3,)) -> ()" in capsys.readouterr().out
    assert main(["check", f"{model}:loss", "--inputs", "np.ones(2), 0.5"]) == 0
    assert "w (2,), x ()" in capsys.readouterr().out


def test_check_finds_a_wrong_backward(model, capsys):
    assert main(["check", f"{model}:wrong"]) == 1
    shown = capsys.readouterr().out
    assert "WRONG" in shown
    assert "custom backward" in shown


@pytest.mark.parametrize("function", ["wrong_forward", "not_a_number"])
def test_no_error_passes_for_agreement(model, function, capsys):
    with np.errstate(all="ignore"):
        assert main(["check", f"{model}:{function}"]) == 1
    shown = capsys.readouterr().out
    assert "WRONG" in shown
    assert "The gradients agree" not in shown


def test_both_directions_of_a_complex_argument_are_measured(model, capsys):
    assert main(["check", f"{model}:complex_loss", "--inputs", "np.array([1 + 2j, -0.5j])", "--second"]) == 0
    assert "WRONG" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["chek"], "Did you mean `check`?"),
        (["check"], "the following arguments are required: FILE:FUNCTION"),
        (["check", "model.py"], "Write FILE:FUNCTION"),
        (["check", "modell.py:loss"], "Did you mean 'model.py'?"),
        (["check", "model.py:los"], "Did you mean loss?"),
        (["check", "model.py:zzz"], "It has loss, pair"),
        (["check", "model.py:loss", "--shape", "a"], "is no shape"),
        (["check", "model.py:loss", "--shape", "x"], "is no shape"),
        (["check", "model.py:loss", "--shape=-1"], "is no shape"),
        (["check", "model.py:loss", "--shape", "4,,3"], "is no shape"),
        (["profile", "model.py", "-o", "flame.html"], "-o stands after the script"),
        (["check", "model.py:loss", *["--shape", "2"] * 3], "3 shapes were given, but loss has 2 arguments"),
        (["check", "model.py:loss", "--inputs", "oops"], "raised NameError"),
        (["check", "model.py:number"], "there is no tensor of floating point"),
        (["check", "model.py:constant"], "does not depend on its arguments"),
        (["check", "model.py:whole", "--inputs", "np.arange(3)"], "no argument of floating point"),
        (["check", "model.py:loss", "--shape", "99999999999999"], "cannot create the arguments of loss"),
        (["check", "model.py:loss", "--seed", "-1"], "'-1' is not an integer from 0"),
        (["check", "model.py:loss", "--seed", "1" * 30], "is not an integer from 0"),
        (["check", "model.py:loss", "--tolerance", "0"], "'0' is not a positive number"),
        (["check", "model.py:loss", "--tolerance", "nan"], "'nan' is not a positive number"),
        (["check", "model.py:scaled", "--inputs", "exit()"], "raised SystemExit"),
        (["check", "model.py:scaled", "--inputs", "np.array(['a'])"], "cannot create the arguments of scaled"),
        (["check", "model.py:scaled", "--inputs", "np.ones(3)", "--shape", "3"], "exclude each other"),
        (["check", "model.py:scaled", "--shape", "2", "--shape", "2"], "has 1 argument without a default"),
        (["check", "model.py:noisy"], "two different results for the same arguments"),
        (["check", "model.py:later"], "is a coroutine function"),
        (["check", ".:loss"], "'.' is a folder"),
        (["graph", "model.py:loss", "-o", "graph.png"], "for PNG or PDF, write .dot"),
        (["graph", "model.py:loss", "-o", "absent/graph.svg"], "there is no folder 'absent'"),
        (["demo", "-o", "absent/graph.svg"], "there is no folder 'absent'"),
        (["profile", "-o", "absent/flame.html", "model.py"], "there is no folder 'absent'"),
        (["profile", "."], "'.' is a folder"),
        (["profile", "model.py", "-oflame.html"], "stands after the script"),
        (["profile", "--rows", "0", "model.py"], "'0' is not an integer of at least 1"),
        (["graph", "model.py:constant"], "there is no graph"),
        (["profile", "nothing.py"], "there is no file"),
        (["profile", "-o", "x.txt", "model.py"], "should end in .html, .json"),
        (["bench", "--seconds", "0"], "'0' is not a positive number"),
        (["bench", "--seconds", "inf"], "'inf' is not a positive number"),
        (["explain", "nd-brodcast"], "Did you mean nd-broadcast"),
        (["explain", "qqqq"], "lists them"),
        (["completion", "tcsh"], "invalid choice: 'tcsh'"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(model, arguments, said, capsys):
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.err.startswith("ndgrad: ")
    assert "Traceback" not in captured.err
    assert re.search(r" \[nd-[a-z]+\]\n$", captured.err)


def test_graph_is_printed_or_written(model, tmp_path, capsys):
    assert main(["graph", f"{model}:loss"]) == 0
    assert "SinBackward0" in capsys.readouterr().out
    for ending in ("html", "svg", "dot", "txt"):
        assert main(["graph", f"{model}:loss", "-o", f"graph.{ending}"]) == 0
        text = (tmp_path / f"graph.{ending}").read_text(encoding="utf-8")
        assert "SinBackward0" in text
    assert "model.py:6" in (tmp_path / "graph.txt").read_text(encoding="utf-8")


def test_profile_runs_a_script_with_its_arguments(model, tmp_path, capsys):
    assert main(["profile", "-o", "flame.html", model, "3", "--x"]) == 3
    shown = capsys.readouterr().out
    assert "arguments ['3', '--x']" in shown
    assert "aten::exp" in shown
    assert "aten::exp" in (tmp_path / "flame.html").read_text(encoding="utf-8")
    assert main(["profile", "--memory", "-o", "trace.json", model]) == 0
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]


def test_profile_of_a_script_without_ndgrad_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain.py").write_text("print('ran')\n")
    assert main(["profile", "plain.py"]) == 0
    assert "called no function of ndgrad" in capsys.readouterr().err
    assert main(["profile", "-o", "flame.html", "plain.py"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_check_at_an_undefined_value_names_the_cause(model, capsys):
    assert main(["check", f"{model}:not_a_number"]) == 1
    shown = capsys.readouterr()
    assert "infinite or undefined at this point" in shown.out
    assert shown.err == ""


def test_interrupted_demo_shows_the_fit_so_far(monkeypatch, capsys):
    def interrupted(count, title):
        yield from range(3)
        raise KeyboardInterrupt

    monkeypatch.setattr("ndgrad._src.command_line.demo.progress", interrupted)
    assert main(["demo"]) == 130
    shown = capsys.readouterr()
    assert "after 3 steps" in shown.out
    assert "*" in shown.out
    assert "interrupted" in shown.err


def test_traceback_of_a_relative_file_keeps_the_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "needs.py").write_text("\nimport no_such_library\n")
    assert main(["check", "needs.py:f"]) == 2
    assert "line 2, in <module>" in capsys.readouterr().err


def test_info_says_versions(capsys):
    assert main(["info"]) == 0
    assert "NumPy" in capsys.readouterr().out
    assert main(["info", "--json"]) == 0
    known = json.loads(capsys.readouterr().out)
    assert known["Python"].endswith(sys.version.split()[0])
    assert "scipy" in known["optional libraries"]


def test_demo_checks_trains_and_draws(tmp_path, capsys):
    path = tmp_path / "graph.html"
    assert main(["demo", "-o", str(path)]) == 0
    assert "loss" in capsys.readouterr().out
    assert "LinearBackward0" in path.read_text(encoding="utf-8")


def test_bench_has_a_row_per_workload(capsys):
    assert main(["bench", "--seconds", "0.001"]) == 0
    assert capsys.readouterr().out.count(" ms") + capsys.readouterr().out.count("µs") > 0


def test_help_teaches_by_examples(capsys):
    for command in words():
        if command:
            with pytest.raises(SystemExit) as done:
                main([command, "--help"])
            assert done.value.code == 0
            assert "examples:" in capsys.readouterr().out
    assert main([]) == 2
    assert "check" in capsys.readouterr().out
    assert main(["--version"]) == 0


@pytest.mark.parametrize("given", ["nd-broadcast", "broadcast", "[nd-broadcast]", "add(): The size of tensor a ... [nd-broadcast]"])
def test_explain_prints_cause_example_and_cure(given, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    assert main(["explain", *given.split()]) == 0
    shown = capsys.readouterr().out
    first, cause, example, cure = shown.split("\n\n")
    assert first == f"nd-broadcast: {entries()['nd-broadcast'].summary}"
    assert (cause[:6], cure[:5]) == ("Cause.", "Cure.")
    assert example.startswith("    >>> ")
    assert "[nd-broadcast]" in example
    assert max(map(len, cause.splitlines())) <= 60
    assert not re.search(r"\*\*|```", shown)


def test_explain_lists_the_codes(capsys):
    assert main(["explain"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(entries())


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_names_every_command(shell, capsys):
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert all(command in text for command in words())


def test_bash_accepts_the_completion(capsys):
    main(["completion", "bash"])
    script = capsys.readouterr().out + "COMP_WORDS=(ndgrad ch) COMP_CWORD=1; _ndgrad; echo ${COMPREPLY[@]}"
    try:
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=20)
    except FileNotFoundError:
        pytest.skip("bash is not installed")
    assert done.stdout.split() == ["check"], done.stderr


def test_module_runs_as_a_command():
    done = subprocess.run([sys.executable, "-m", "ndgrad", "--version"], capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("ndgrad ")
    assert done.returncode == 0


# ----- faults in a user's file --------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["check", "graph"])
def test_error_inside_a_function_is_told_from_its_own_line(command, tmp_path, capsys):
    (tmp_path / "own.py").write_text("def grown(x):\n    return x.reshape(7, 7).sum()\n")
    assert main([command, f"{tmp_path / 'own.py'}:grown"]) == 2
    told = capsys.readouterr().err
    assert "called with x (3,)" in told
    assert "return x.reshape(7, 7).sum()" in told
    assert "shape '[7, 7]' is invalid" in told
    assert "command_line" not in told
    assert "api" not in told


def test_file_that_cannot_be_imported_is_told_without_our_lines(tmp_path, capsys):
    (tmp_path / "broken.py").write_text("def f(x: return\n")
    assert main(["check", f"{tmp_path / 'broken.py'}:f"]) == 2
    told = capsys.readouterr().err
    assert "cannot be imported" in told
    assert "SyntaxError" in told
    assert "importlib" not in told


def test_arguments_that_do_not_fit_are_named(tmp_path, capsys):
    (tmp_path / "two.py").write_text("def f(n: int, x):\n    return x[:n].sum()\n")
    target = f"{tmp_path / 'two.py'}:f"
    assert main(["check", target]) == 2
    assert '--inputs "2, np.ones(3)"' in capsys.readouterr().err
    assert main(["check", target, "--inputs", "1.0"]) == 2
    assert "missing a required argument: 'x'" in capsys.readouterr().err
    assert main(["check", target, "--inputs", "2, np.ones(3)"]) == 0


def test_profile_of_a_script_that_fails_is_shown_all_the_same(tmp_path, capsys):
    (tmp_path / "fails.py").write_text("import ndgrad\nndgrad.ones(3).exp()\nraise ValueError('boom')\n")
    assert main(["profile", str(tmp_path / "fails.py")]) == 1
    told = capsys.readouterr()
    assert "ValueError: boom" in told.err
    assert "runpy" not in told.err
    assert "aten::exp" in told.out


def test_unknown_words_say_what_there_is(capsys):
    assert main(["nothing"]) == 2
    assert "The commands are demo, info, check" in capsys.readouterr().err
    assert main(["completion", "tcsh"]) == 2
    assert "bash" in capsys.readouterr().err
    assert main(["profile"]) == 2
    assert "required: FILE. `ndgrad profile --help`" in capsys.readouterr().err


def test_profile_passes_arguments_after_two_dashes(model, tmp_path, capsys):
    assert main(["profile", "--rows", "3", model, "--", "7", "-o"]) == 7
    assert "arguments ['7', '-o']" in capsys.readouterr().out


def test_interrupted_profile_is_written(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "long.py").write_text("import ndgrad\nndgrad.ones(3).exp()\nraise KeyboardInterrupt\n")
    assert main(["profile", "-o", "flame.html", "long.py"]) == 130
    told = capsys.readouterr()
    assert "aten::exp" in told.out
    assert "interrupted" in told.err
    assert "aten::exp" in (tmp_path / "flame.html").read_text(encoding="utf-8")


def test_interrupted_check_shows_measured_elements(tmp_path, capsys):
    (tmp_path / "slow.py").write_text(
        "calls = []\ndef slow(x):\n    calls.append(1)\n    if len(calls) > 12:\n        raise KeyboardInterrupt\n"
        "    return (x * x).sum()\n"
    )
    assert main(["check", f"{tmp_path}/slow.py:slow", "--shape", "50"]) == 130
    told = capsys.readouterr()
    assert re.search(r"x +[1-9]\d* ", told.out), told.out
    assert "Traceback" not in told.err
    assert "interrupted" in told.err


def test_shapes_may_be_written_in_several_ways(model, capsys):
    for text in ("4,3", "4x3", "(4, 3)", "4,3,"):
        assert main(["check", f"{model}:scaled", "--shape", text]) == 0
        assert "(4, 3)" in capsys.readouterr().out
    assert main(["check", f"{model}:scaled", "--shape", ""]) == 0


def test_output_of_check_on_its_page_is_what_the_command_prints(tmp_path, monkeypatch, capsys):
    """The page shows the output for its own program, and only rounding errors differ between machines."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "command-line.md").read_text(encoding="utf-8")
    (tmp_path / "model.py").write_text(re.search(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[1])
    monkeypatch.chdir(tmp_path)
    shown = re.search(r"prints\n\n(.*?)\nand exits", page, re.DOTALL)[1]
    assert main(["check", "model.py:loss", "--shape", "4,3", "--shape", "3"]) == 0

    def without_errors(text):
        words = re.sub(r"\d\.\d+e-\d+ +(\w\[[^]]*\])?", "E ", text).split()
        return " ".join(words)

    assert without_errors(capsys.readouterr().out) == without_errors(shown)
