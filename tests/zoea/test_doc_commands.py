"""What the documents ask for and no test runs would begin: its options are known."""

from __future__ import annotations

import re
import shlex

import pytest
import yaml
from django.core.management import CommandError, get_commands, load_command_class

from bench.__main__ import parse_options
from tests.zoea.documents import ALL_TEXT, list_blocks, read_document
from zoea.management.commands import up
from zoea.supervise.programs import HOST

_MAKE = re.compile(r'make ([a-z-]+)(?: ARGS="([^"]*)")?')
_BENCH = re.compile(r"python -m (bench(?: [a-z]+)?)((?: [^\s`#()]+)*)")
_MANAGE = re.compile(r"python manage\.py (\w+)((?: [^\s`#()]+)*)")
_RECIPE = re.compile(
    r"^([a-z-]+):.*\n\t@(?:exec )?\$\(PYTHON\) (?:-m |manage\.py )(\w[\w ]*) \$\(ARGS\)$",
    re.MULTILINE,
)
RECIPES = dict(_RECIPE.findall(read_document("Makefile")))
MADE = [
    (RECIPES[name], said) for name, said in _MAKE.findall(ALL_TEXT) if name in RECIPES
]
MANAGED = [
    each
    for block in list_blocks()
    if block.why
    for each in _MANAGE.findall(block.text.replace("\\\n", ""))
]


def parse(program: str, options: list[str]) -> None:
    """Read the options of a benchmark or a command; ends where they are wrong."""
    if not program.startswith("bench"):
        command = load_command_class(get_commands()[program], program)
        command.create_parser("manage.py", program).parse_args(options)
        return
    parse_options([*program.split()[1:], *options])


@pytest.mark.parametrize(
    ("program", "said"), sorted({*MADE, *_BENCH.findall(ALL_TEXT), *MANAGED})
)
def test_a_command_line_of_the_documents_is_taken(program: str, said: str):
    parse(program, shlex.split(said))


def test_the_targets_that_take_options_are_found():
    benches = {"bench", "bench-fleet", "bench-peers", "chaos", "soak"}
    assert set(RECIPES) == {"up", *benches}
    assert set(RECIPES.values()) <= {program for program, said in MADE if said}
    assert {"backup", "procrastinate", "restore", "sandbox"} <= dict(MANAGED).keys()


def test_an_option_that_there_is_not_is_refused():
    with pytest.raises(SystemExit):
        parse("bench load", ["--nowhere"])
    with pytest.raises(CommandError):
        parse("up", ["--nowhere"])


def test_prometheus_is_told_to_ask_where_up_answers_and_with_a_token():
    [block] = [each for each in list_blocks() if each.language == "yaml"]
    [job] = yaml.safe_load(block.text)["scrape_configs"]
    port = up.Command().create_parser("manage.py", "up").get_default("port")
    assert job["static_configs"] == [{"targets": [f"{HOST}:{port}"]}]
    assert job["authorization"] == {"credentials": "zoea_..."}
    # Prometheus' own words for the rest: it asks /metrics unless told another path.
    assert set(job) == {
        "job_name",
        "scrape_interval",
        "authorization",
        "static_configs",
    }
