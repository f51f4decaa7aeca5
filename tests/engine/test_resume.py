"""Killed at any point and resumed, a run ends bit for bit as if nothing had happened."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tag2box.engine.checkpoint import read_state
from tag2box.engine.loop import train_run

KILLS = 5
SCRIPT = '''
"""Runs training in fresh forks of a process that has only imported things, and kills some of them."""
import json, os, random, shutil, signal, sys, time, traceback
from pathlib import Path

import lightning.fabric, torch
from tag2box.config import recipe_from_values
from tag2box.data.records import Dataset, TaggedImage
from tag2box.engine import loop, stages
from tag2box.proposals.store import ProposalStore

told = json.loads(Path(sys.argv[1]).read_text())
images = tuple(TaggedImage(i, Path(p), tuple(s), tuple(t)) for i, p, s, t in told["images"])
world = Dataset(tuple(told["classes"]), images), ProposalStore(Path(told["store"]))
recipe = recipe_from_values(told["recipe"], "test")
loop.SAVE_EVERY_S = 0.0


def evaluate(stage, own, other):
    return {"map": float(other.scores.sum() + other.boxes.sum()), "corloc": float(own.scores.sum() + own.boxes.sum())}


class Report:
    """Where nobody listens."""

    def results(self, rows):
        pass

    def samples(self, followed):
        pass


def die_after(name, calls):
    """SIGKILL from within, when the engine has called that function so many times."""
    place = stages if hasattr(stages, name) else loop
    inner, seen = getattr(place, name), []

    def count(*args, **options):
        result = inner(*args, **options)
        seen.append(1)
        if len(seen) == calls:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(place, name, count)


def start(out, resume, death=None):
    child = os.fork()
    if child:
        return child
    try:
        torch.set_num_threads(1)
        if death:
            die_after(*death)
        options = {"evaluate": evaluate, "val": world, "report": Report(), "resume": resume, "device": "cpu"}
        options["known"] = told["known"]
        loop.train_run(*world, recipe, Path(out), **options)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def end(child):
    """How a child ended: its exit code, or minus the signal."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


began = time.monotonic()
assert end(start(told["whole"], False)) == 0
seconds = time.monotonic() - began
draw, longest = random.Random(told["seed"]), 0.2


def in_pieces():
    """Kill and resume until the run is done; how each process ended."""
    deaths, ends, kills = list(told["deaths"]), [], 0
    while not ends or ends[-1] != 0:
        death = deaths.pop(0) if deaths else None
        child = start(told["pieces"], True, death)
        if death is None and kills < told["kills"]:
            time.sleep(seconds * draw.uniform(0.02, longest))
            os.kill(child, signal.SIGKILL)  # if it has just ended it is still there until waited for
            kills += 1
        ends.append(end(child))
        assert ends[-1] in (0, -signal.SIGKILL), ends
    return ends


ends = in_pieces()
while ends.count(-signal.SIGKILL) < told["kills"]:  # the machine was in a hurry: done before all of them
    longest /= 2
    shutil.rmtree(told["pieces"])
    ends = in_pieces()
print(json.dumps(ends))
'''


def run_twice(world, recipe, folder: Path, deaths=(), kills=0, known=None) -> list[int]:
    """Once whole, once in pieces; how the processes of the second ended."""
    told = {
        "images": [(one.id, str(one.path), one.size, one.tags) for one in world.dataset],
        "classes": world.dataset.classes,
        "store": str(world.store.path),
        "recipe": recipe.as_dict(),
        "whole": str(folder / "whole"),
        "pieces": str(folder / "pieces"),
        "seed": recipe.seed,
        "deaths": deaths,
        "kills": kills,
        "known": known,
    }
    (folder / "told.json").write_text(json.dumps(told))
    (folder / "script.py").write_text(SCRIPT)
    command = [sys.executable, str(folder / "script.py"), str(folder / "told.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def assert_equal(
    folder: Path, before: tuple[str, ...] = (), anew: tuple[str, ...] = (), *, hints: bool = False
) -> None:
    """The two runs are the same; `before` are stages before the usual ones, `anew` of a warm start learnt again.

    hints: whether a teacher has left any.
    """
    whole, pieces = (folder / name / "weights" for name in ("whole", "pieces"))
    for name in ("last.safetensors", "best.safetensors", "conditional.safetensors"):
        assert (whole / name).read_bytes() == (pieces / name).read_bytes(), name
    (tensors, state), (others, other) = (read_state(one / "state.safetensors") for one in (whole, pieces))
    assert tensors.keys() == others.keys()
    assert all(torch.equal(value, others[key]) for key, value in tensors.items())
    stages = [row["stage"] for row in state["record"]["rows"]]
    assert stages == [*before, "wsddn", "refined", *anew, "round-1", "round-2"]
    timed = {"seconds", "images_per_second", "data_wait", "peak_memory_mb"}
    for row, twin in zip(state["record"]["rows"], other["record"]["rows"], strict=True):
        assert {k: v for k, v in row.items() if k not in timed} == {k: v for k, v in twin.items() if k not in timed}
    assert sorted(file.name for file in pieces.iterdir()) == [
        "best.safetensors",
        "conditional.safetensors",
        *(["hints.safetensors"] if anew or hints else []),
        "last.safetensors",
        "state.safetensors",
        "warm.safetensors",
    ]


def test_killed_at_five_random_points(world, make_recipe, tmp_path):
    recipe = make_recipe(
        head={"dropout": 0.3},
        data={"scales": (48, 64)},
        optimiser={"name": "adamw", "images": 2, "schedule": "cosine"},
        warm={"epochs": 2, "branches": 2},
    )
    ends = run_twice(world, recipe, tmp_path, kills=KILLS)
    assert ends.count(-9) == KILLS
    assert_equal(tmp_path)


def test_killed_between_a_stage_s_files(world, make_recipe, tmp_path):
    """While the warm start is scored, between a round's two files, after them, and after the second save of a half."""
    deaths = [("detect", 2), ("save_detector", 1), ("save_detector", 3), ("follow", 1), ("save_state", 2)]
    ends = run_twice(world, make_recipe(optimiser={"images": 2}), tmp_path, deaths=deaths)
    assert ends == [-9, -9, -9, -9, -9, 0]
    assert_equal(tmp_path)


def test_killed_at_random_points_with_tags_first(world, make_recipe, tmp_path):
    """Crops are drawn, features are kept but not for them, and several seeds teach a branch."""
    recipe = make_recipe(
        head={"dropout": 0.3},
        optimiser={"name": "adamw", "images": 2},
        warm={"tag_epochs": 1, "epochs": 2, "branches": 2, "votes": True, "first_refinement": 2.0},
    )
    ends = run_twice(world, recipe, tmp_path, kills=KILLS)
    assert ends.count(-9) == KILLS
    assert_equal(tmp_path, before=("tags",))


def test_killed_at_random_points_with_known_boxes(world, make_recipe, tmp_path):
    """A class of some pictures known, one tag taken away: decisions come from a file again, at every start."""
    first, second, third = world.dataset.ids[:3]
    known = {
        first: {"red": [list(world.truth[0][0])]},
        second: {"green": [list(world.truth[1][0]), [0, 0, 20, 20]]},
        third: {"blue": []},
    }
    recipe = make_recipe(head={"dropout": 0.3}, data={"scales": (48, 64)}, rounds={"promise": 2.0, "samples": 3})
    ends = run_twice(world, recipe, tmp_path, kills=KILLS, known=known)
    assert ends.count(-9) == KILLS
    assert_equal(tmp_path)


def test_killed_at_random_points_and_while_the_warm_start_begins_anew(world, make_recipe, tmp_path):
    """Also just after what it found was written, and before the first step from it."""
    recipe = make_recipe(head={"dropout": 0.3}, data={"scales": (48, 64)}, warm={"again": 2}, rounds={"promise": 2.0})
    deaths = [("find_again", 1), ("build_warm", 2), ("build_warm", 2)]
    ends = run_twice(world, recipe, tmp_path, deaths=deaths, kills=KILLS)
    assert ends.count(-9) == KILLS + len(deaths)
    assert_equal(tmp_path, anew=("anew-1", "anew-2"))


def test_killed_while_it_begins_anew_from_what_the_tags_have_taught(world, make_recipe, tmp_path):
    recipe = make_recipe(head={"dropout": 0.3}, data={"scales": (48, 64)}, warm={"again": 1, "tag_epochs": 1})
    ends = run_twice(world, recipe, tmp_path, deaths=[("find_again", 1)], kills=KILLS)
    assert ends.count(-9) == KILLS + 1
    assert_equal(tmp_path, before=("tags",), anew=("anew-1",))


SETUPS = {
    "accumulating SGD": {"optimiser": {"images": 1, "accumulate": 2}, "head": {"dropout": 0.3}},
    "learning trunk, SGD": {"backbone": {"frozen": "early"}, "head": {"dropout": 0.5}, "data": {"scales": (48, 64)}},
    "learning trunk, AdamW, accumulating": {
        "backbone": {"frozen": "none"},
        "head": {"dropout": 0.5},
        "optimiser": {"name": "adamw", "images": 1, "accumulate": 4},
    },
    "max pooling, maps kept": {"head": {"pooling": "max", "dropout": 0.3}},
    "proposals cut out": {
        "backbone": {"name": "mobilenet_v3_small"},
        "head": {"kind": "cut", "pixels": 32, "dropout": 0.3},
        "teacher": {"name": "mobilenet_v3_small", "weights": "none", "size": 32, "regions": 6, "epochs": 0},
    },
    "tags first, learning trunk, resident": {
        "backbone": {"frozen": "early"},
        "head": {"dropout": 0.5},
        "data": {"scales": (48, 64), "resident": "on"},
        "warm": {"tag_epochs": 1, "branches": 2},
    },
    "half precision": {"precision": "bf16-mixed", "head": {"dropout": 0.3}, "data": {"scales": (48, 64)}},
}


@pytest.mark.slow
@pytest.mark.parametrize("setup", SETUPS)
@pytest.mark.parametrize("seed", [0, 1])
def test_killed_at_random_points_in_every_setup(world, make_recipe, tmp_path, setup, seed):
    recipe = make_recipe(seed=seed, **SETUPS[setup])
    ends = run_twice(world, recipe, tmp_path, kills=KILLS)
    assert ends.count(-9) == KILLS
    before = ("tags",) if recipe.warm.tag_epochs else ()
    assert_equal(tmp_path, before=before, hints=bool(recipe.teacher.name))


def test_what_a_kill_left_half_written_is_swept_away(world, make_recipe, tmp_path):
    """Our own temporary files and those of safetensors, which writes beside the place too; nobody else's."""
    recipe = make_recipe(warm={"epochs": 1}, rounds={"number": 0})
    weights = tmp_path / "weights"
    weights.mkdir()
    for name in (".state-abc123.safetensors", ".tmpvfgWZk", ".gitignore"):
        (weights / name).write_bytes(b"half")
    train_run(world.dataset, world.store, recipe, tmp_path, resume=True, device="cpu")
    left = {file.name for file in weights.iterdir()}
    assert left == {".gitignore", "best.safetensors", "last.safetensors", "state.safetensors"}
