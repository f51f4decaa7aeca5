"""Views of pictures as JSON lines, and the paper's figure 2 drawn from them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tag2box.errors import InputError
from tag2box.report import samples as samples_module
from tag2box.report.colours import colours_of
from tag2box.report.sample_pictures import class_colours, draw_all_samples, draw_samples
from tag2box.report.samples import SampleView, append_samples, picture_name, read_samples

BOX = (60.0, 40.0, 140.0, 110.0)


@pytest.fixture
def photo(tmp_path) -> Path:
    Image.new("RGB", (200, 150), (128, 128, 128)).save(tmp_path / "photo.png")
    return tmp_path / "photo.png"


def view(photo: Path, stage: str = "round-1", **changes) -> SampleView:
    return replace(SampleView(photo, "photo", stage, ("cat",), [("cat", 0.9, BOX)], [[("cat", BOX)]] * 5), **changes)


def shifted(by: float) -> tuple[float, float, float, float]:
    return BOX[0] + by, BOX[1] + by / 2, BOX[2] + by, BOX[3] + by / 2


def saturation(path: Path) -> np.ndarray:
    with Image.open(path) as image:
        pixels = np.asarray(image.convert("RGB")).astype(int)
    return pixels.max(axis=-1) - pixels.min(axis=-1)


def test_round_trip(tmp_path):
    views = [
        SampleView(
            Path("a/ö \u2028 <b>.jpg"), "a/ö \u2028 <b>", "round-1", ("cat", 'say "hi"\n'), [("cat", 0.25, BOX)]
        ),
        SampleView(Path("b.jpg"), "b", "round-1", (), [], [[], [("cat", BOX), ("cat", BOX)]]),
    ]
    append_samples(tmp_path / "samples.jsonl", views)
    assert read_samples(tmp_path / "samples.jsonl") == views
    assert len((tmp_path / "samples.jsonl").read_text().splitlines()) == 2


def test_a_stage_done_again_replaces_itself(tmp_path, photo):
    path = tmp_path / "samples.jsonl"
    append_samples(path, [view(photo, "wsddn"), view(photo, "round-1")])
    again = view(photo, "round-1", prediction=[])
    append_samples(path, [again])
    append_samples(path, [view(photo, "round-2")])
    assert [found.stage for found in read_samples(path)] == ["wsddn", "round-1", "round-2"]
    assert read_samples(path)[1] == again


def test_numbers_of_numpy_are_taken(tmp_path, photo):
    box = tuple(np.float32(side) for side in BOX)
    append_samples(tmp_path / "s.jsonl", [view(photo, prediction=[("cat", np.float32(0.5), box)])])
    assert read_samples(tmp_path / "s.jsonl")[0].prediction == [("cat", 0.5, BOX)]


def test_a_kill_while_writing_leaves_the_old_lines(tmp_path, photo, monkeypatch):
    path = tmp_path / "samples.jsonl"
    append_samples(path, [view(photo)])
    before = path.read_bytes()
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        append_samples(path, [view(photo, "round-2")])
    assert path.read_bytes() == before
    assert {file.name for file in tmp_path.iterdir()} == {"samples.jsonl", "photo.png"}


@pytest.mark.parametrize("line", ["{", "[]", '{"image_path": "a"}', '{"image_path": 3}'])
def test_a_line_that_is_no_view_is_named(tmp_path, line):
    (tmp_path / "samples.jsonl").write_text(f"\n{line}\n")
    with pytest.raises(InputError, match="line 2"):
        read_samples(tmp_path / "samples.jsonl")


def test_names_of_pictures_are_safe_and_different():
    ids = ["a/b", "a_b", "a%2Fb", "../up", ".hidden", "<script>", "ä", "x" * 300, "x" * 301, 'c:\\"?*|']
    names = [picture_name(id) for id in ids]
    assert len(set(names)) == len(ids)
    for name in names:
        assert not set(name) & set('/\\<>:"?*|')
        assert not name.startswith(".")
        assert len(name.encode()) <= samples_module.LONGEST_NAME + 4


def test_agreement_is_bold_and_scatter_is_hazy(tmp_path, photo):
    agreed = view(photo, prediction=[])
    scattered = view(photo, prediction=[], samples=[[("cat", shifted(12.0 * i - 24))] for i in range(5)])
    for name, shown in (("agreed", agreed), ("scattered", scattered)):
        draw_samples([shown], tmp_path / f"{name}.png")
    bold, hazy = (saturation(tmp_path / f"{name}.png") for name in ("agreed", "scattered"))
    assert (bold > 190).sum() > 4 * (hazy > 190).sum()
    assert (hazy > 20).sum() > (bold > 20).sum()


@pytest.mark.parametrize("number", [1, 3, 20])
def test_full_agreement_looks_the_same_for_any_number_of_samples(tmp_path, photo, number):
    peaks = []
    for k in (5, number):
        draw_samples([view(photo, prediction=[], samples=[[("cat", BOX)]] * k)], tmp_path / "out.png")
        peaks.append(saturation(tmp_path / "out.png").max())
    assert peaks[0] == pytest.approx(peaks[1], abs=12)


def test_a_column_per_stage_and_a_row_per_net(tmp_path, photo):
    def size(*views: SampleView) -> tuple[int, int]:
        draw_samples(views, tmp_path / "out.png")
        with Image.open(tmp_path / "out.png") as image:
            return image.size

    rounds = [view(photo, f"round-{i}") for i in range(1, 4)]
    (width_1, height_1), (width_3, height_3) = size(rounds[0]), size(*rounds)
    assert width_3 > 2.5 * width_1
    assert height_3 == height_1
    warm = view(photo, "wsddn", samples=[])
    assert size(warm)[1] < 0.7 * height_1
    assert size(warm, rounds[0])[1] >= height_1


def test_weak_detections_are_left_out_but_the_best_of_a_tag(tmp_path, photo):
    def drawn(*prediction) -> bytes:
        draw_samples([view(photo, "wsddn", samples=[], prediction=list(prediction))], tmp_path / "out.png")
        return (tmp_path / "out.png").read_bytes()

    best, weaker, untagged = ("cat", 0.02, BOX), ("cat", 0.01, shifted(30)), ("dog", 0.1, BOX)
    assert drawn(best) == drawn(best, weaker, untagged)
    assert drawn(best) != drawn()
    assert drawn(best) != drawn(best, ("dog", 0.6, shifted(30)))


@pytest.mark.parametrize("size", [(1, 1), (3000, 20), (20, 3000), (1600, 1200)])
def test_any_size_of_picture(tmp_path, size):
    Image.new("RGB", size, "grey").save(tmp_path / "photo.png")
    whole = (-5.0, -5.0, size[0] + 5.0, size[1] + 5.0)
    names = ["cat", "<script>alert(1)</script>", "Ж\n" * 40]
    views = [view(tmp_path / "photo.png", prediction=[(n, 0.9, whole) for n in names], samples=[[(names[2], whole)]])]
    draw_samples(views, tmp_path / "out.png")
    with Image.open(tmp_path / "out.png") as image:
        assert 200 < image.width < 4200
        assert 200 < image.height < 1200


def test_a_class_has_one_colour_in_the_whole_run_and_shares_it_with_no_other(photo):
    """That which `predict`, `rank` and `review` give it, whatever else is on a picture."""
    classes = [f"class {i}" for i in range(20)]
    for tags in (("class 3",), ("class 11", "class 3"), tuple(classes[::-1])):
        drawn = class_colours([view(photo, tags=tags, prediction=[], samples=[])], classes)
        assert drawn == {name: colours_of(classes)[name] for name in tags}
    assert len(set(drawn.values())) == 20
    stranger = class_colours([view(photo, tags=("ghost",), prediction=[], samples=[])], classes)["ghost"]
    assert stranger not in colours_of(classes).values()


def test_a_grid_is_drawn_on_nothing_so_that_it_suits_a_light_page_and_a_dark_one(tmp_path, photo):
    """Around the panels there is only grey on a clear ground; the panels themselves are opaque."""
    draw_samples([view(photo, samples=[])], tmp_path / "out.png")
    with Image.open(tmp_path / "out.png") as image:
        assert image.mode == "RGBA"
        pixels = np.asarray(image).astype(int)
    assert pixels[0, 0, 3] == pixels[-1, -1, 3] == 0
    assert (pixels[..., 3] == 255).mean() > 0.4
    written = pixels[:40][(pixels[:40, :, 3] == 255) & (np.ptp(pixels[:40, :, :3], axis=2) < 30)]
    assert len(written) > 20
    assert (np.abs(written[:, :3] - (119, 125, 137)) < 8).all()


def test_names_that_no_font_has_are_told_by_their_number(tmp_path, photo, capsys):
    name = "\U000f0000\U000f0001"
    draw_samples([view(photo, tags=(name,), image_id=name)], tmp_path / "out.png", classes=("cat", name))
    assert "#2" in capsys.readouterr().err


def test_a_picture_per_image(tmp_path, photo):
    views = [view(photo, stage, image_id=id) for stage in ("round-1", "round-2") for id in ("cat/1", "dog/1")]
    paths = draw_all_samples(views, tmp_path / "run" / "samples", classes=("cat",))
    assert [path.name for path in paths] == ["cat%2F1.png", "dog%2F1.png"]
    assert sorted((tmp_path / "run" / "samples").iterdir()) == paths


def test_a_missing_photo_leaves_the_old_picture(tmp_path):
    (tmp_path / "out.png").write_text("old")
    with pytest.raises(InputError, match="gone"):
        draw_samples([view(tmp_path / "gone.png")], tmp_path / "out.png")
    assert (tmp_path / "out.png").read_text() == "old"
