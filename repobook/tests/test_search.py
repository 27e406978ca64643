"""Search of the model: exact words first, misspelled words by the nearest ones."""

from collections.abc import Callable
from itertools import product

import pytest
from conftest import Files, Repository

from repobook import answers, ask, cli

Make = Callable[[Files], Repository]

TREE: Files = {
    "a.py": 'class SavedVariable:\n    """Keeps a tensor."""\n\n    def unpack(self): ...\n\n\nclass SavedVariableHooks: ...\n',
    "b.py": "class Session: ...\n\n\ndef sesame(): ...\n",
}


@pytest.fixture
def book(make_repository: Make) -> Repository:
    repository = make_repository(TREE)
    repository.build()
    return repository


@pytest.mark.parametrize(
    ("words", "first"),
    [
        ("session", "Session"), ("sesion", "Session"), ("sessoin", "Session"), ("sesssion", "Session"),
        ("savedvariabel", "SavedVariable"), ("saved varable", "SavedVariable"), ("svaed hooks", "SavedVariableHooks"),
        ("unpakc", "unpack"), ("sesam", "sesame"),
    ],
)  # fmt: skip
def test_words_and_misspelled_words_are_found(book: Repository, words: str, first: str) -> None:
    assert ask.search(book.db, words)[0].name == first


@pytest.mark.parametrize("words", ["zzzzzz", "xyz", "sassafras", "", "-", '"', "a* OR b"])
def test_words_that_are_like_none_find_nothing(book: Repository, words: str) -> None:
    assert ask.search(book.db, words) == []


def slow_distance(one: str, two: str) -> int:
    """Optimal string alignment, from its definition."""
    if not one or not two:
        return len(one) + len(two)
    found = [
        slow_distance(one[:-1], two) + 1,
        slow_distance(one, two[:-1]) + 1,
        slow_distance(one[:-1], two[:-1]) + (one[-1] != two[-1]),
    ]
    if one[-2:] == two[-2:][::-1] and len(one) > 1 and len(two) > 1:
        found.append(slow_distance(one[:-2], two[:-2]) + 1)
    return min(found)


def test_errors_are_counted_as_the_definition_counts_them() -> None:
    words = ["", "a", "ab", "ba", "abc", "acb", "bca", "aabb", "abab", "cabba"]
    for one, two in product(words, words):
        for most in (0, 1, 2):
            assert ask.count_errors(one, two, most) == min(slow_distance(one, two), most + 1), (one, two, most)


def test_a_name_that_is_not_defined_suggests_similar_ones(book: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    place = ["--path", str(book.root)]
    for command in ("find", "uses", "callers"):
        assert cli.main([command, "Sesion", *place]) == 1
        said = capsys.readouterr()
        assert said.out == "" and said.err == "repobook: no definition of 'Sesion'; similar names: Session\n"
    assert cli.main(["find", "qqqqqqqq", *place]) == 1
    assert capsys.readouterr().err == "repobook: no definition of 'qqqqqqqq'\n"
    assert "similar names: SavedVariable" in answers.definition(book.db, "a.SavedVariabel")


def test_a_budget_names_its_unit() -> None:
    text = answers.fit(["a line of some length"] * 500, 100)
    assert "the budget of 100 tokens (about 300 characters) is spent" in text and len(text) <= 300
    assert len(answers.fit(["a line of some length"] * 500, -5)) < 500
