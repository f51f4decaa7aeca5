import pytest

from tag2box.commands.parts import Source, require_known_classes
from tag2box.errors import InputError
from tag2box.proposals import compute


@pytest.fixture
def photos(tmp_path, save_picture):
    """Two cats and a dog."""
    for name in ("cat/a", "cat/b", "dog/c"):
        save_picture(tmp_path / "photos" / f"{name}.png")
    return tmp_path / "photos"


@pytest.fixture
def asked(monkeypatch):
    """The names of the pictures whose proposals have been computed."""
    names, own = [], compute.propose
    monkeypatch.setattr(compute, "propose", lambda path, settings: names.append(path.name) or own(path, settings))
    return names


def test_photos_added_since_are_computed_and_no_others(photos, asked, save_picture, capsys):
    source = Source(data=photos, workers=1)
    first = source.open(None)
    assert asked == ["a.png", "b.png", "c.png"]
    save_picture(photos / "dog" / "d.png")
    second = source.open(None)
    assert asked[3:] == ["d.png"]
    assert second.store.ids == second.dataset.ids == ("a", "b", "c", "d")
    assert capsys.readouterr().err == f"{first.store.path}: 3 pictures were there, 1 is new\n"
    assert (second.store["a"] == first.store["a"]).all()  # the file that was replaced can still be read


def test_several_processes_do_not_all_compute(photos, asked, save_picture, monkeypatch):
    source = Source(data=photos, workers=1)
    source.open(None)
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert len(source.open(None).store) == 3
    save_picture(photos / "dog" / "d.png")
    with pytest.raises(InputError, match=r"1 of 4 are not in it \(d\); bring it up to date with `tag2box proposals …`"):
        source.open(None)
    assert len(asked) == 3


def test_a_file_that_was_given_is_not_changed(photos, asked, save_picture):
    path = Source(data=photos, workers=1).open(None).store.path
    own, before = path.rename(photos.parent / "own"), len(asked)
    content = own.read_bytes()
    save_picture(photos / "dog" / "d.png")
    with pytest.raises(InputError, match=r"own was made for other images: 1 of 4 are not in it \(d\)"):
        Source(data=photos, proposals=own).open(None)
    assert (own.read_bytes(), len(asked)) == (content, before)


def test_listed_in_silence_and_before_any_proposals(photos, asked, capsys):
    (photos / "dog" / "broken.png").write_bytes(b"")
    with pytest.raises(InputError, match=r"broken\.png \(empty file\)"):
        Source(data=photos).listed(None)
    assert Source(data=photos, skip_bad_images=True).listed(None).ids == ("a", "b", "c")
    assert (asked, capsys.readouterr().err) == ([], "")


def test_classes_that_a_run_does_not_know(photos, tmp_path):
    dataset = Source(data=photos).listed(None)
    require_known_classes(dataset, ("bird", "cat", "dog"), tmp_path)
    with pytest.raises(InputError, match=r"expected tags that .* has learnt, found 'dog'; did you mean 'dogs'\?"):
        require_known_classes(dataset, ("cat", "dogs"), tmp_path)
