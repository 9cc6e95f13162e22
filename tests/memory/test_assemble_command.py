"""``manage.py assemble``: results, errors in one line, and nothing loaded for it."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from memory.management import assembly
from memory.management.assembly import InputError, assemble_json

ROOT = Path(__file__).parents[2]
STATE = {
    "username": "VoidWanderer",
    "current_tick": 107,
    "now": "2026-02-05T00:01:10Z",
    "seconds_per_tick": 10,
    "snapshots": [
        {
            "tool": "get_status",
            "args": {},
            "content": {"credits": 4200},
            "tick": 109,
            "captured_at": "2026-02-05T00:00:50Z",
            "stale": None,
        }
    ],
}


def manage(*words: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run the command as somebody would, without a database to be found."""
    return subprocess.run(
        [sys.executable, "manage.py", "assemble", *words],
        cwd=ROOT,
        env={"DATABASE_URL": "postgres://nobody@127.0.0.1:1/none", "PATH": ""},
        input=given,
        capture_output=True,
        check=False,
    )


def document(*contents: str, **more: Any) -> bytes:
    messages = [{"role": "user", "content": content} for content in contents]
    return json.dumps({"messages": messages, **more}).encode()


def test_a_file_and_standard_input_give_the_same_result(tmp_path: Path) -> None:
    path = tmp_path / "history.json"
    path.write_bytes(document("go", state=STATE))
    from_file = manage(str(path))
    assert (from_file.returncode, from_file.stderr) == (0, b"")
    assert manage("-", given=path.read_bytes()).stdout == from_file.stdout
    result = json.loads(from_file.stdout)
    (message,) = result["messages"]
    assert message["content"].startswith("go\n\n## Current Game State\n")
    assert "4,200" in message["content"]
    assert result["stats"]["tick_skew"] == 1


def test_what_cannot_fit_is_a_result() -> None:
    done = manage("-", given=document("go", budget={"tokens": 0, "reserve": 0}))
    assert done.returncode == 0
    assert json.loads(done.stdout)["status"] == "budget_impossible"


def test_lines_are_answered_one_by_one() -> None:
    lines = [document("go"), b"", b"{", document("a\u2028b"), b'{"messages": 1}']
    done = manage("--jsonl", "-", given=b"\n".join(lines) + b"\n")
    assert (done.returncode, done.stderr) == (0, b"")
    answers = [json.loads(line) for line in done.stdout.decode().splitlines()]
    assert [sorted(answer) == ["error"] for answer in answers] == [
        False,
        True,
        True,
        False,
        True,
    ]
    assert answers[4]["error"] == "messages: must be a list"


def test_a_huge_line_is_one_line_among_others() -> None:
    """5 MB in one message, then a line that is short."""
    lines = [document("word " * 1_000_000), document("go")]
    done = manage("--jsonl", "-", given=b"\n".join(lines))
    assert (done.returncode, done.stderr) == (0, b"")
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["ledger"][0]["disposition"] for answer in answers] == [
        "truncated",
        "kept",
    ]


def test_a_line_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded: the rest of it is read past, the next line is answered."""
    monkeypatch.setattr(assembly, "LARGEST", 1_000)
    most = document("x").ljust(1_000)
    source = io.BytesIO(
        b"\n".join([most[:-1], b"x" * 5_000, most + b"x", document("go")])
    )
    answers: list[dict[str, Any]] = []
    monkeypatch.setattr(assembly, "_write", answers.append)
    assembly._answer(source, True)
    assert [answer.get("error") for answer in answers] == [
        None,
        "the document has more than 1,000 bytes; give fewer messages",
        "the document has more than 1,000 bytes; give fewer messages",
        None,
    ]


def test_whoever_reads_may_stop_at_any_time() -> None:
    """As `head -1` does: no complaint, and the status of success."""
    process = subprocess.Popen(
        [sys.executable, "manage.py", "assemble", "--jsonl", "-"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin
    assert process.stdout
    assert process.stderr
    process.stdin.write(document("go") + b"\n")
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["status"] == "unchanged"
    process.stdout.close()
    process.stdin.write(document("word " * 100_000) + b"\n")
    process.stdin.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 0


@pytest.mark.parametrize(
    ("redirection", "why"),
    [
        ("> /dev/full", "standard output: No space left on device"),
        (">&-", "standard output is closed"),
        ("<&-", "standard input is closed"),
        ("2>&-", ""),
    ],
)
def test_a_stream_that_cannot_be_used_is_one_line(redirection: str, why: str) -> None:
    words = f"exec {sys.executable} manage.py assemble - {redirection}"
    done = subprocess.run(
        ["/bin/sh", "-c", words],
        cwd=ROOT,
        input=document("go"),
        capture_output=True,
        check=False,
    )
    line = f"manage.py assemble: {why}\n" if why else ""
    assert (done.returncode, done.stderr.decode()) == (2 if why else 0, line)


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (b"", "nothing came"),
        (b"{", "not JSON"),
        (b"\xff\xfe", "not UTF-8"),
        (b'{"messages": [], "extra": 1}', "extra: unknown key"),
        (b'{"messages": [], "state": {"when": 1}}', "state: unknown key"),
        (b'{"messages": [], "data": {"x": NaN}}', "NaN"),
        (b'{"messages": ' + b"[" * 100_000, "nested too deeply"),
        (
            b'{"messages": [' + b"{}," * 1_000_000 + b"{}]}",
            "holds more than 400,000 messages; give fewer",
        ),
        (
            b'{"data": {"a": [' + b"[]," * 1_000_000 + b"1]}}",
            "holds more than 800,000 lists and objects; give fewer",
        ),
        (b'{"messages": [], "turns_left": ' + b"9" * 5_000 + b"}", "4300"),
    ],
)
def test_other_input_is_one_line_that_names_what_is_wrong(
    given: bytes, names: str
) -> None:
    with pytest.raises(InputError) as caught:
        assemble_json(given)
    text = str(caught.value)
    assert names in text
    assert "\n" not in text
    text.encode()


def test_bad_input_ends_with_status_2_and_one_line() -> None:
    for words, given in (
        (["-"], b'{"messages": 1}'),
        (["no/such/file.json"], b""),
        (["."], b""),
        ([], b""),
        (["-", "--what"], b""),
    ):
        done = manage(*words, given=given)
        assert (done.returncode, done.stdout) == (2, b"")
        assert done.stderr.count(b"\n") == 1
        assert done.stderr.startswith(b"manage.py assemble: ")


def test_lone_surrogates_and_huge_messages_give_a_result() -> None:
    given = b'{"messages": [{"role": "user", "content": "\\ud800 \xed\xa0\x80"}]}'
    content = assemble_json(given)["messages"][0]["content"]
    assert set(content) == {"\ufffd", " "}
    huge = assemble_json(document("word " * 1_000_000, "go"))
    assert huge["status"] == "nothing_to_fold"
    assert huge["ledger"][0]["handle"] == "ctx://self/1"


def test_it_starts_without_django() -> None:
    code = (
        "import sys; sys.argv = ['manage.py', 'assemble', '-']; import manage\n"
        "try: manage.main()\n"
        "finally: print(sorted({'django', 'psycopg', 'ninja', 'asyncio', 'ssl',"
        " 'pydantic'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        input=document("go"),
        capture_output=True,
        check=False,
    )
    assert done.stdout.splitlines()[-1] == b"[]", done.stderr
