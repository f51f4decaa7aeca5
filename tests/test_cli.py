import json
import resource
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tag2box import __version__
from tag2box.cli import COMMANDS, main
from tag2box.cli.parsing import _options_first
from tag2box.data.splits import in_validation

HEAVY = ("torch", "torchvision", "lightning", "cv2", "numba", "matplotlib", "scipy", "numpy", "rich", "PIL")


def run(*arguments):
    return subprocess.run([sys.executable, "-m", "tag2box", *arguments], capture_output=True, text=True)


# ---- help


def test_help_answers_at_once():
    """In seconds of the processor, which other work on the machine does not lengthen much."""
    script, taken = Path(sys.executable).with_name("tag2box"), []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([script, "--help"], check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(taken) < 0.5


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], *([name, "--help"] for name in COMMANDS)])
def test_help_loads_nothing_heavy(arguments):
    code = f"""
import sys
from tag2box.cli import main
try:
    main({arguments!r})
except SystemExit:
    pass
print([name for name in {HEAVY!r} if name in sys.modules])
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"], ["help"]])
def test_main_help_names_every_command(arguments, capsys):
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    assert err == ""
    for name, summary in COMMANDS.items():
        assert f"  {name} " in out
        assert summary in out
    for words in (
        "usage: tag2box COMMAND",
        "Exit codes: 0",
        "130 stopped",
        "examples:\n  tag2box ",
        "tags.csv",
        "metadata.jsonl",
    ):
        assert words in out


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_tells_every_option_and_an_example(name, capsys):
    with pytest.raises(SystemExit) as stop:
        main([name, "--help"])
    assert stop.value.code == 0
    out = capsys.readouterr().out
    assert out.startswith(f"usage: tag2box {name} ")
    assert "examples:\n" in out
    assert out.count(f"tag2box {name} ") + out.count(f"tag2box {name}\n") >= 2  # in the usage and the examples
    options = [action for action in import_module(f"tag2box.cli.{name}").parser()._actions if action.option_strings]
    assert len(options) >= 2
    for action in options:
        assert action.help
        assert any(line.lstrip().startswith(", ".join(action.option_strings)) for line in out.splitlines())
    assert max(map(len, out.splitlines())) <= 120


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"tag2box {__version__}\n"


def test_as_a_module():
    done = run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"tag2box {__version__}\n", "")
    done = run("propsals")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("found 'propsals'; did you mean 'proposals'?\n")


# ---- wrong command lines: one line, exit code 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("propsals", "expected a command ("),
        ("--nope", "found '--nope'"),
        ("proposals", "expected DATA, found nothing (see tag2box proposals --help)"),
        ("proposals missing", "missing does not exist"),
        ("proposals missing --split", "--split"),
        ("proposals missing --nope", "--nope (see tag2box proposals --help)"),
        ("proposals missing another", "another"),
        ("proposals missing --presett fast", "--presett fast; did you mean '--preset'? (see tag2box proposals --help)"),
        ("proposals missing --workers many", "expected a whole number for --workers, found many"),
        ("proposals missing --workers 1.5", "expected a whole number for --workers, found 1.5"),
        ("proposals missing --overwrite=yes", "--overwrite"),
        ("proposals missing --preset fast --preset", "--preset"),
        ("proposals . --preset slow", "expected a preset"),
        ("evaluate", "expected DATA, found nothing (see tag2box evaluate --help)"),
        ("evaluate missing", "expected a RUN before DATA, or --detections FILE, found only missing"),
        ("evaluate run/weights/best.safetensors", "expected DATA after the run, found only run/weights/best.safetens"),
        ("evaluate one two three", "found one two three: too many"),
        ("evaluate --detections missing.json", "expected DATA, found nothing"),
        ("train", "expected DATA, found nothing (see tag2box train --help)"),
        ("train missing --warm.epoch 1", "--warm.epoch 1; did you mean '--warm.epochs'? (see tag2box train --help)"),
        ("train missing --warm.epoch=1", "did you mean '--warm.epochs'?"),
        ("train missing --recip demo", "did you mean '--recipe'?"),
        ("evaluate --detections missing.json missing", "missing does not exist"),
        (
            "evaluate --detections missing.json missing --val-fraction half",
            "expected a number for --val-fraction, found half",
        ),
        ("evaluate --detections missing.json missing --metrics voc7", "found 'voc7'; did you mean 'voc07'?"),
        ("evaluate --detections missing.json missing --metrics ,", "found none"),
        ("evaluate --detections missing.json missing --seed x", "x"),
        ("demo here", "here"),
        ("demo --seed one", "one"),
        ("demo --seed -1", "expected seed ≥ 0"),
    ],
)
def test_wrong_command_lines(arguments, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(arguments.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("tag2box: ")
    assert len(err.splitlines()) == 1
    assert words in err
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_wrong_line_has_no_traceback_in_a_shell(tmp_path):
    done = run("proposals", str(tmp_path))  # an empty folder
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1


def test_ctrl_c(monkeypatch, capsys):
    def stopped(**_):
        raise KeyboardInterrupt

    monkeypatch.setattr("tag2box.cli.demo.run", stopped)
    assert main(["demo"]) == 130
    assert capsys.readouterr().err == "tag2box: stopped\n"


def test_the_module_itself_loads_little():
    """Before `main` nobody hears a Ctrl-C."""
    code = "import sys, tag2box.cli; print([name for name in ('jsonargparse', 'yaml') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_ctrl_c_while_things_are_loaded(monkeypatch, capsys):
    def stopped():
        raise KeyboardInterrupt

    monkeypatch.setattr("tag2box.cli.demo.parser", stopped)
    assert main(["demo"]) == 130
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_run_without_data(tmp_path, capsys):
    (tmp_path / "weights").mkdir()
    assert main(["evaluate", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"tag2box: expected DATA after the run, found only {tmp_path}\n"


def test_our_own_mistakes_are_not_hidden(monkeypatch):
    def broken(**_):
        raise ZeroDivisionError

    monkeypatch.setattr("tag2box.cli.demo.run", broken)
    with pytest.raises(ZeroDivisionError):
        main(["demo"])


# ---- commands get what was asked for


def test_options_arrive(monkeypatch):
    got = {}
    monkeypatch.setattr("tag2box.cli.proposals.run", lambda **options: got.update(options))
    given = "photos --split s --images i --preset p --workers 3 --out o --overwrite --from f.mat"
    main(["proposals", *given.split()])
    assert got == {
        "data": Path("photos"),
        "split": "s",
        "images": Path("i"),
        "preset": "p",
        "workers": 3,
        "out": Path("o"),
        "overwrite": True,
        "source": Path("f.mat"),
        "skip_bad_images": False,
        "json_out": None,
    }


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("a --score .5 b", ["--score", ".5", "a", "b"]),
        ("a --score=.5 b --tta c", ["--score=.5", "--tta", "a", "b", "c"]),
        ("a -- --tta b", ["a", "--", "--tta", "b"]),
        ("a - --nope b", ["--nope", "a", "-", "b"]),
        ("a --score", ["a", "--score"]),
    ],
)
def test_options_may_stand_among_the_paths(arguments, expected):
    parser = import_module("tag2box.cli.predict").parser()
    assert _options_first(arguments.split(), parser._option_string_actions) == expected


def test_evaluate_from_end_to_end(make_devkit, tmp_path, capsys):
    """Right in the images held out, wrong in the others: the fraction tells them apart."""
    ids = [f"{number:06d}" for number in range(1, 31)]
    devkit = make_devkit({id: [("cat", (11, 11, 60, 60))] for id in ids}, {"test": ids}, pictures=False)
    held_out = [id for id in ids if in_validation(id, 0.3, 5)]
    assert 0 < len(held_out) < len(ids)
    results, scores = tmp_path / "results.json", tmp_path / "scores.json"
    right, wrong = [10, 10, 50, 50], [60, 0, 30, 10]
    found = [
        {"image_id": id, "category": "cat", "bbox": right if id in held_out else wrong, "score": 0.5} for id in ids
    ]
    results.write_text(json.dumps(found))

    command = ["evaluate", "--detections", str(results), str(devkit), "--split", "test", "--json", str(scores)]
    assert main([*command, "--metrics", "corloc, voc07"]) == 0
    whole = json.loads(scores.read_text())
    assert list(whole) == ["corloc", "voc07"]
    assert whole["corloc"] == {
        "mean": pytest.approx(100 * len(held_out) / 30),
        "per_class": whole["corloc"]["per_class"],
    }
    capsys.readouterr()

    assert main([*command, "--val-fraction", "0.3", "--seed", "5"]) == 0
    part = json.loads(scores.read_text())
    assert part == {metric: {"mean": 100, "per_class": {"cat": 100}} for metric in ("voc07", "corloc")}
    out = capsys.readouterr().out
    assert f"{len(held_out)} detections in {len(held_out)} images" in out
    assert ["cat", "100.0", "100.0"] in [line.split() for line in out.splitlines()]

    assert main([*command, "--val-fraction", "1.5"]) == 2
