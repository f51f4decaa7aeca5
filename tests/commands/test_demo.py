import numpy as np
import pytest
from PIL import Image

from tag2box.cli import main
from tag2box.commands.demo import demo
from tag2box.data import open_dataset
from tag2box.proposals.store import open_store


def test_the_story_on_built_in_data(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    demo(tmp_path / "new" / "demo", seed=3, pictures=7, test=2)
    devkit = tmp_path / "new" / "demo" / "data" / "VOCdevkit" / "VOC2007"
    dataset = open_dataset(devkit, "trainval")
    assert (len(dataset), len(open_dataset(devkit, "test"))) == (7, 2)
    store = open_store(devkit / ".tag2box" / "proposals-trainval-fast.safetensors", dataset)
    out = capsys.readouterr().out
    assert "7 pictures to learn from, 2 to test on, tagged with " + ", ".join(dataset.classes) in out
    assert f"7 images, {store.count / 7:,.0f} boxes" in out
    assert "recall@0.5" in out
    for shown in ("pictures.jpg", store.path.with_suffix(".recall.png").name, store.path.with_suffix(".best.jpg").name):
        assert shown in out
    with Image.open(tmp_path / "new" / "demo" / "pictures.jpg") as sheet:
        assert sheet.width > 1000
        assert len(np.unique(np.asarray(sheet)[::4, ::4].reshape(-1, 3), axis=0)) > 1000

    run = tmp_path / "new" / "demo" / "run"
    for made in ("args.yaml", "results.csv", "results.png", "report.html", "weights/best.safetensors"):
        assert (run / made).stat().st_size
    stages = [line.partition(",")[0] for line in (run / "results.csv").read_text().splitlines()[1:]]
    assert stages == ["wsddn", "refined", *(f"round-{number}" for number in range(1, 7))]
    assert "refined" in out
    assert str(run / "report.html") in out

    demo(tmp_path / "new" / "demo", seed=3, pictures=7, test=2)  # all is there: told again, not made again
    assert capsys.readouterr().out.splitlines()[0] == out.splitlines()[0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--seed", "-1"], "expected seed ≥ 0"),
        (["--out", "{tmp}/file"], "cannot make the folder {tmp}/file"),
        (["--out", "{tmp}/file/below"], "cannot make the folder {tmp}/file/below"),
    ],
)
def test_wrong_options(tmp_path, monkeypatch, capsys, options, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    assert main(["demo", *(option.format(tmp=tmp_path) for option in options)]) == 2
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    assert words.format(tmp=tmp_path) in err
