"""The package has the published names: tools/published_names.py says so, and notices where it has not."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"
sys.path.append(str(TOOLS))
import published_names as names  # noqa: E402


def run(*options):
    command = [sys.executable, str(TOOLS / "published_names.py"), *options]
    return subprocess.run(command, capture_output=True, text=True)


def test_every_published_name_is_here():
    done = run("--all")
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_used_name_is_called_in_a_test():
    rows, closed = names.read(names.LIST), names.closed_list(names.CLOSED.read_text())
    assert names.never_called(rows, closed) == []


def test_the_closed_list_is_short():
    """What an example uses is closed only where it needs other hardware."""
    rows, closed = names.read(names.LIST), names.closed_list(names.CLOSED.read_text())
    reasons = {row.short: names.reason_of(row, closed) for row in rows if row.used}
    unfounded = {name: why for name, why in reasons.items() if why and not why.startswith("needs ")}
    assert unfounded == {}


PUBLISHED = "(a, b=2, /, c=None, *, d='x', e=<Policy.Square: 0>)"


@pytest.mark.parametrize("ours,how", [
    (lambda x, b=2, c=None, *, d="x", e=None: 0, ""),
    (lambda x, b=2, c=None, own=1, *, d="x", e=None, more=0: 0, ""),
    (lambda *args, **kwargs: 0, ""),
    (lambda x, b=2, **kwargs: 0, "takes no c as argument 3"),
    (lambda x, b=2, z=None, *, d="x", e=None: 0, "argument 3 is z, not c"),
    (lambda x, b=2, c=None, *, e=None: 0, "takes no keyword d="),
    (lambda x, b=2, c=None, *, d="y", e=None: 0, "the default of d is 'y', not 'x'"),
    (lambda x, b=2, c=0, *, d="x", e=None: 0, "the default of c is 0, not None"),
    (lambda x, b=2, c=None, *, d, e=None: 0, "d has no default, which is 'x'"),
])  # fmt: skip
def test_signatures(ours, how):
    assert names.differs(names.Row("m", "f", "function", PUBLISHED, 1), ours) == how


def test_more_signatures():
    def of(signature, ours):
        return names.differs(names.Row("m", "f", "function", signature, 1), ours)

    assert of("(a)", lambda a, own: 0) == "needs own, which is not published"
    assert of("(*extents, threads=None)", lambda *blocks, threads=None: 0) == ""
    assert of("(*extents)", lambda a=1: 0) == "takes no *extents"
    assert of("(self, dtype=dtype('float32'))", lambda self, dtype="float16": 0).endswith("not 'float32'")
    assert of("(*args, **kwds)", lambda a: 0) == ""


PAGE = """
| `T.other` | not of this table |

## Closed list

| name | hardware or reason |
|---|---|
| `T.far_*`, `m.Class`, `tilelang.a.Class` | needs the moon |

## More

| `T.last` | nor this |
"""


def test_the_closed_list_is_read():
    closed = names.closed_list(PAGE)
    assert closed == dict.fromkeys(("T.far_*", "m.Class", "tilelang.a.Class"), "needs the moon")
    rows = (("tilelang.language", "far_away"), ("m", "Class"), ("m", "Class.member"),
            ("tilelang.a.b.c", "Class"))  # fmt: skip
    for module, name in rows:
        assert names.reason_of(names.Row(module, name, "function", "()", 0), closed) == "needs the moon"
    assert names.reason_of(names.Row("tilelang.language", "other", "function", "()", 0), closed) is None


def test_faults_are_noticed():
    published = (("cdiv", "(a, b)"), ("cdiv", "(a, b, c)"), ("unheard_of", "()"), ("far", "()"),
                 ("set_log_level", "()"))  # fmt: skip
    rows = [names.Row("tilelang", name, "function", signature, 1) for name, signature in published]
    rows.append(names.Row("tilelang.nowhere", "", "path", "", 0))
    faults = names.compare(rows, {"tilelang.set_log_level": "needs the moon"})
    assert faults["missing"] == ["tilelang.unheard_of", "tilelang.far"]
    assert faults["cannot be imported"] == ["tilelang.nowhere"]
    assert faults["differs"] == ["tilelang.cdiv(a, b, c): takes no c as argument 3"]
    assert len(faults["closed"]) == 1 and "must say 'needs the moon'" in faults["closed"][0]


def test_another_list_may_have_more(tmp_path):
    other = tmp_path / "names.tsv"
    lines = [
        "module\tname\tkind\tsignature\tused\there",
        "tilelang.language\tbrand_new\tfunction\t(a)\t0\tno",
        "tilelang.inner\tused\tfunction\t(a)\t3\tno",
        "tilelang.inner\tunused\tfunction\t(a)\t0\tno",
    ]
    other.write_text("\n".join(lines) + "\n")
    done = run("--against", str(other), "--all")
    assert done.returncode == 1
    told = done.stdout.partition("missing in the list (2):\n")[2].split("\n")
    assert told[:2] == ["  T.brand_new", "  tilelang.inner.used"]
