"""`tag2box predict` as it is used: a detector's file, pictures of all kinds, and what is in the folder afterwards."""

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from tag2box import load
from tag2box.about import read_about
from tag2box.cli import main
from tag2box.commands import predict as module
from tag2box.commands.predict import as_coco_results, predict
from tag2box.commands.predict_video import read_frames, write_video
from tag2box.config import load_recipe
from tag2box.detections import Detections
from tag2box.detector import build_prediction_net, save_detector
from tag2box.errors import InputError


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A run directory with a detector that has learnt nothing, but whose answers differ from picture to picture."""
    folder = tmp_path_factory.mktemp("run")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    small = {"backbone.weights": "none", "head.width": 16, "data.scales": "32,40", "inference.scales": 40}
    recipe = load_recipe("demo", small)
    net = build_prediction_net(recipe, 2)
    with torch.no_grad():
        net.predictor.scores.weight.mul_(100)
    (folder / "weights").mkdir()
    save_detector(folder / "weights" / "best.safetensors", net, recipe, ["cat", "dog"])
    return folder


@pytest.fixture
def photos(tmp_path, monkeypatch) -> Path:
    """Three pictures with something in them, and we are in the folder above them."""
    rng = np.random.default_rng(0)
    for name, (width, height) in {"a.jpg": (80, 60), "cat/b.png": (64, 48), "dog/b.jpg": (48, 64)}.items():
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(60, 90, (height, width, 3), dtype=np.uint8)
        pixels[10:40, 12:44] = rng.integers(0, 256, 3)
        Image.fromarray(pixels).save(path)
    monkeypatch.chdir(tmp_path)
    return Path("photos")


def results(folder):
    return json.loads((Path(folder) / "predictions.json").read_text("utf-8"))


def files(folder):
    """All but what the folder says of itself."""
    every = {path.relative_to(folder).as_posix() for path in Path(folder).rglob("*") if path.is_file()}
    return sorted(every - {"tag2box.json"})


def test_a_folder(run, photos, capsys):
    assert main(["predict", str(run), "photos", "--score", "0.2"]) == 0
    assert files("predictions") == ["a.jpg", "cat/b.png", "dog/b.jpg", "predictions.json"]
    found = results("predictions")
    assert {entry["image_id"] for entry in found} == {"a", "cat/b", "dog/b"}
    for entry in found:
        assert entry["category"] == ["cat", "dog"][entry["category_id"] - 1]
        x, y, width, height = entry["bbox"]
        assert min(x, y) >= 0
        assert min(width, height) > 0
        assert 0.2 <= entry["score"] <= 1
    out, err = capsys.readouterr()
    assert err == ""
    counts, speed, where = out.splitlines()
    assert re.fullmatch(rf"{len(found)} detections in 3 pictures: (cat|dog) \d+(, (cat|dog) \d+)?", counts)
    assert re.fullmatch(
        r"\d+\.\d pictures/s: of \d+\.\d s the net took \d+\.\d, drawing \d+\.\d, "
        r"waiting for proposals \d+\.\d \(\d threads?\)",
        speed,
    )
    assert where == "in predictions: predictions.json and the annotated pictures"


def test_options_may_come_first(run, photos):
    assert main(["predict", str(run), "--score", "0.2", "photos/a.jpg", "photos/cat", "--no-pictures"]) == 0
    assert main(["predict", "--score", "0.2", "--no-pictures", str(run), "photos/a.jpg", "photos/cat"]) == 0
    assert results("predictions") == results("predictions-2")


def test_the_same_as_in_python(run, photos):
    predict(run, ["photos"], score=0.2, max_detections=3, out=Path("here"))
    paths = ["photos/a.jpg", "photos/cat/b.png", "photos/dog/b.jpg"]
    found = load(run).predict(paths, score=0.2, max_detections=3)
    entries = results("here")
    assert len(entries) == len(found) > 5
    np.testing.assert_allclose([entry["score"] for entry in entries], found.scores, atol=1e-5)
    boxes = np.array([entry["bbox"] for entry in entries])
    np.testing.assert_allclose(boxes[:, :2] + boxes[:, 2:], found.boxes[:, 2:], atol=0.02)


@pytest.mark.parametrize("options", ["--batch 4", "--workers 1", "--batch 2 --workers 3"])
def test_batches_and_workers_change_nothing(run, photos, options):
    for number in range(4):
        Image.open("photos/a.jpg").rotate(number).save(f"photos/more{number}.png")
    main(["predict", str(run), "photos", "--out", "one", "--score", "0.1", "--no-pictures"])
    assert main(["predict", str(run), "photos", "--out", "two", "--score", "0.1", *options.split()]) == 0
    one, two = results("one"), results("two")
    assert len(one) > 20
    same = ("image_id", "category")
    assert [[entry[key] for key in same] for entry in one] == [[entry[key] for key in same] for entry in two]
    np.testing.assert_allclose([entry["score"] for entry in one], [entry["score"] for entry in two], atol=2e-5)


@pytest.mark.slow
def test_in_processes(run, photos, capsys, monkeypatch):
    monkeypatch.setattr(module, "WORTH_A_PROCESS", 1)
    predict(run, ["photos"], score=0.2, out=Path("one"), workers=2)
    assert "(2 processes)" in capsys.readouterr().out
    predict(run, ["photos"], score=0.2, out=Path("two"), workers=1)
    assert results("one") == results("two")


def test_tta(run, photos):
    predict(run, ["photos"], out=Path("one"), score=0.05)
    predict(run, ["photos"], out=Path("two"), score=0.05, tta=True)
    assert results("one") != results("two")
    tta = load(run).predict(sorted(map(str, photos.rglob("*.*"))), score=0.05, tta=True)
    np.testing.assert_allclose([entry["score"] for entry in results("two")], tta.scores, atol=1e-5)


def test_evaluate_reads_it(run, make_devkit, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    objects = {f"00000{i}": [("cat", (1, 1, 90, 70)), ("dog", (30, 30, 60, 60))] for i in (1, 2, 3)}
    devkit = make_devkit(objects, {"test": list(objects)})
    predict(run, [str(devkit / "JPEGImages")], score=0.0001, pictures=False)
    assert files("predictions") == ["predictions.json"]
    how = ["--split", "test", "--metrics", "voc07"]
    assert (
        main(["evaluate", "--detections", "predictions/predictions.json", str(devkit), *how, "--json", "1.json"]) == 0
    )
    assert main(["evaluate", str(run), str(devkit), *how, "--json", "2.json", "--workers", "1"]) == 0
    one, two = (json.loads(Path(name).read_text())["voc07"]["per_class"] for name in ("1.json", "2.json"))
    assert one == pytest.approx(two, abs=0.5)


def test_evaluate_reads_it_where_coco_numbers_have_gaps(run, save_picture, tmp_path, monkeypatch, capsys):
    """The same scores whatever the data set's numbers are; here a picture's name is even the number of another."""
    monkeypatch.chdir(tmp_path)
    names = ["12", "40", "c"]
    for name in names:
        save_picture(tmp_path / "test" / f"{name}.png", (90, 70))
    predict(run, ["test"], score=0.0001, pictures=False)
    found = results("predictions")
    assert {entry["image_id"] for entry in found} == set(names)
    assert {(entry["category_id"], entry["category"]) for entry in found} <= {(1, "cat"), (2, "dog")}
    scores = []
    for images, (cat, dog) in ([1, 2, 3], (1, 2)), ([40, 7, 9000], (90, 18)):
        content = {
            "images": [{"id": number, "file_name": f"{name}.png"} for number, name in zip(images, names, strict=True)],
            "categories": [{"id": cat, "name": "cat"}, {"id": dog, "name": "dog"}],
            "annotations": [
                {"id": i, "image_id": images[names.index(entry["image_id"])], "bbox": entry["bbox"]}
                | {"category_id": cat if entry["category"] == "cat" else dog}
                for i, entry in enumerate(found[::3])
            ],
        }
        Path("instances_test.json").write_text(json.dumps(content))
        how = "instances_test.json --detections predictions/predictions.json --json scores.json"
        assert main(["evaluate", *how.split()]) == 0
        scores.append(json.loads(Path("scores.json").read_text()))
    assert scores[0] == scores[1]
    assert scores[0]["voc07"]["mean"] > 0


def test_a_file_as_run_and_patterns_and_names(run, photos, save_picture, capsys):
    for name in ("it's <b>.jpg", "Ünï 猫.png", "[1].jpg"):
        save_picture(photos / "odd" / name, (60, 50))
    file = str(run / "weights" / "best.safetensors")
    assert main(["predict", file, "photos/odd/*", "photos/odd/[1].jpg", "--score", "0", "--out", "there"]) == 0
    assert files("there") == ["[1].jpg", "it's <b>.jpg", "predictions.json", "Ünï 猫.png"]
    assert {entry["image_id"] for entry in results("there")} == {"[1]", "it's <b>", "Ünï 猫"}
    assert "Ünï 猫" in (Path("there") / "predictions.json").read_text("utf-8")
    assert Image.open("there/[1].jpg").format == "JPEG"


def test_a_name_in_no_encoding(run, photos):
    name = os.fsdecode(b"\xff\xe9.jpg")
    try:
        (photos / "a.jpg").rename(photos / name)
    except OSError:
        pytest.skip("the file system takes only UTF-8")
    predict(run, ["photos"], score=0.1)
    assert os.fsdecode(b"\xff\xe9") in {entry["image_id"] for entry in results("predictions")}
    assert name in files("predictions")


def test_nothing_found(run, photos, capsys):
    predict(run, ["photos/a.jpg"], score=1.0)
    assert results("predictions") == []
    assert files("predictions") == ["a.jpg", "predictions.json"]
    assert "0 detections in 1 picture with a score of 1 or more (--score lowers it)" in capsys.readouterr().out


def test_the_next_free_folder(run, photos):
    folders = [predict(run, ["photos/a.jpg"], pictures=False) for _ in range(3)]
    assert folders == [Path("predictions"), Path("predictions-2"), Path("predictions-3")]
    with pytest.raises(InputError, match="out: expected a new or an empty folder, found files in photos"):
        predict(run, ["photos/a.jpg"], out=photos)
    with pytest.raises(InputError, match=r"cannot make the folder photos/a\.jpg"):
        predict(run, ["photos"], out=photos / "a.jpg")


# ---- videos


@pytest.fixture
def clip(photos) -> Path:
    """Ten frames of a square that moves."""
    with write_video(photos / "clip.mp4", 5.0) as add:
        for number in range(10):
            pixels = np.full((60, 80, 3), 90, dtype=np.uint8)
            pixels[15:45, 4 * number : 4 * number + 30] = (200, 40, 30)
            add(number, Image.fromarray(pixels))
    return photos / "clip.mp4"


def test_a_video(run, clip, capsys):
    assert main(["predict", str(run), str(clip), "--score", "0.2", "--batch", "4", "--out", "found"]) == 0
    assert files("found") == ["clip.mp4", "predictions.json"]
    assert {entry["image_id"] for entry in results("found")} == {f"clip/{number:06d}" for number in range(10)}
    frames = list(read_frames(Path("found/clip.mp4"), 1))
    assert len(frames) == 10
    assert frames[0][1].shape == (60 * 6, 80 * 6, 3)  # small ones are enlarged
    assert "in 10 pictures" in capsys.readouterr().out


@pytest.mark.parametrize(("every", "numbers"), [("4", [0, 4, 8]), ("1s", [0, 5]), ("100", [0])])
def test_some_frames(run, clip, every, numbers):
    predict(run, [str(clip), "photos/a.jpg"], score=0.0, every=every, out=Path("found"))
    expected = ["a", *(f"clip/{number:06d}" for number in numbers)]
    assert list(dict.fromkeys(entry["image_id"] for entry in results("found"))) == expected
    assert files("found") == ["a.jpg", "clip.mp4", "predictions.json"]
    assert len(list(read_frames(Path("found/clip.mp4"), 1))) == len(numbers)


def test_a_video_without_pictures(run, clip):
    predict(run, [str(clip)], score=0.2, every="5", pictures=False)
    assert files("predictions") == ["predictions.json"]


# ---- what is wrong


def test_broken_pictures(run, photos, capsys):
    (photos / "x.jpg").write_bytes(b"broken")
    (photos / "y.png").write_bytes(b"")
    assert main(["predict", str(run), "photos"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        "tag2box: found 2 bad images (--skip-bad-images goes on without): photos/x.jpg (not an image), "
        "photos/y.png (empty file)\n"
    )
    assert not Path("predictions").exists()
    assert main(["predict", str(run), "photos", "--skip-bad-images", "--score", "0.1"]) == 0
    assert files("predictions") == ["a.jpg", "cat/b.png", "dog/b.jpg", "predictions.json"]
    assert capsys.readouterr().err.startswith("skipped 2 bad images: photos/x.jpg (not an image), ")


@pytest.mark.parametrize("skip", [False, True])
def test_a_picture_that_breaks_meanwhile(run, photos, skip, monkeypatch, capsys):
    check = module.without_bad

    def then_broken(*args, **options):
        checked = check(*args, **options)
        (photos / "cat" / "b.png").write_bytes(b"broken")
        return checked

    monkeypatch.setattr(module, "without_bad", then_broken)
    if skip:
        predict(run, ["photos"], skip_bad_images=True, score=0.1)
        assert {entry["image_id"] for entry in results("predictions")} == {"a", "dog/b"}
        assert "skipped 1 bad image: cannot read the picture photos/cat/b.png" in capsys.readouterr().err
    else:
        with pytest.raises(InputError, match=r"cannot read the picture photos/cat/b\.png: not an image"):
            predict(run, ["photos"])
        assert not Path("predictions/predictions.json").exists()


def test_stopped(run, photos, monkeypatch, capsys):
    def stopped(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "annotate", stopped)
        assert main(["predict", str(run), "photos"]) == 130
        err = capsys.readouterr().err
        assert err == "tag2box: stopped; predictions holds the pictures so far, and no predictions.json\n"
        assert files("predictions") == []
    assert read_about(Path("predictions"))["finished"] is False
    assert main(["predict", str(run), "photos", "--out", "predictions"]) == 0  # the same again, from the beginning
    assert files("predictions") == ["a.jpg", "cat/b.png", "dog/b.jpg", "predictions.json"]
    assert main(["predict", str(run), "photos", "--out", "predictions"]) == 2


def test_what_the_results_are_of(run, photos):
    predict(run, ["photos"], score=0.2, tta=True, max_detections=3)
    about = read_about(Path("predictions"))
    assert (about["run"], about["score"], about["max_detections"], about["tta"]) == (str(run), 0.2, 3, True)
    assert (about["pictures"], about["detections"], about["finished"]) == (3, len(results("predictions")), True)


def test_its_own_results_are_not_looked_at_again(run, photos, monkeypatch):
    monkeypatch.chdir(photos)
    for out in ("found", "more", "more still"):
        assert main(["predict", str(run), ".", "--out", out]) == 0
        assert files(out) == ["a.jpg", "cat/b.png", "dog/b.jpg", "predictions.json"]


def test_videos_in_a_folder_are_passed_over_and_named(run, photos, capsys):
    (photos / "cat" / "clip.mov").write_bytes(b"")
    assert main(["predict", str(run), "photos"]) == 0
    words = "passed over 1 video in folders: photos/cat/clip.mov; name them, and they are looked at\n"
    assert capsys.readouterr().err == words


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", "see tag2box predict --help)"),
        ("{run}", "expected RUN and then pictures, found too little (see tag2box predict --help)"),
        ("{run} --score 0.5", "expected RUN and then pictures, found too little (see tag2box predict --help)"),
        ("photos photos", "photos: expected a finished run, found no weights/best.safetensors"),
        ("photos/a.jpg photos", "photos/a.jpg: expected a detector written by tag2box, found something else"),
        ("nowhere photos", "expected a run directory or a detector's file, found nothing at nowhere"),
        ("{run} fotos", "fotos does not exist; did you mean 'photos'?"),
        ("{run} photos --score 30", "score: expected a number between 0 and 1, found 30"),
        ("{run} photos --score high", "expected a number for --score, found high"),
        ("{run} photos --batch 0", "batch: expected 1 or more, found 0"),
        ("{run} photos --max-detections 0", "max-detections: expected 1 or more, found 0"),
        ("{run} photos --workers 0", "workers: expected 1 or more, found 0"),
        ("{run} photos --every 5", "every: expected a video to take frames from, found pictures only"),
        ("{run} photos --every x", "every: expected a number of frames (10) or seconds (0.5s), found 'x'"),
        ("{run} photos --device tpu", "device: expected auto, cpu or cuda, found 'tpu'"),
        ("{run} photos --out photos", "out: expected a new or an empty folder, found files in photos"),
        ("{run} photos --scores 1", "did you mean '--score'?"),
    ],
)
def test_wrong_command_lines(words, expected, run, photos, capsys):
    before = files(".")
    assert main(["predict", *words.format(run=run).split()]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert expected.format(run=run) in err
    assert files(".") == before


def test_coco_results_are_json_of_one_line_a_detection():
    found = Detections(
        ('k"at',), ("1",), np.array([0]), np.array([0]), np.array([1 / 3]), np.array([[0.004, 1, 2.5, 3]])
    )
    text = as_coco_results(found)
    assert len(text.splitlines()) == 3
    entry = {"image_id": "1", "category_id": 1, "category": 'k"at', "bbox": [0.0, 1.0, 2.5, 2.0], "score": 0.33333}
    assert json.loads(text) == [entry]
    assert json.loads(as_coco_results(found.take(np.array([], dtype=np.int64)))) == []


def test_fewer_proposals(run, photos):
    assert main(["predict", str(run), "photos", "--score", "0", "--max-proposals", "1", "--no-pictures"]) == 0
    assert len(results("predictions")) <= 3 * 2  # of each picture and class
    assert main(["predict", str(run), "photos", "--max-proposals", "0"]) == 2
