import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tag2box.data import open_dataset, open_ground_truth
from tag2box.data.tag_rows import split_tags
from tag2box.errors import InputError


@pytest.fixture
def folder(tmp_path, save_picture):
    for name in ("a.jpg", "b.PNG", "sub dir/ç.jpg", "sub dir/d.jpg"):
        save_picture(tmp_path / name)
    return tmp_path


def write(folder, text, name="tags.csv"):
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def tags_of(dataset):
    return {image.id: image.tags for image in dataset}


def opened(folder, **options):
    return open_dataset(folder, warn=lambda message: None, **options)


def test_csv_with_all_separators(folder):
    write(folder, 'image,tags\na.jpg,cat dog\nb.PNG,"dog, hot dog"\nsub dir/ç.jpg,hot dog;cat\nd.jpg,\n')
    dataset = open_dataset(folder)
    assert dataset.classes == ("cat", "dog", "hot dog")
    assert tags_of(dataset) == {"a": ("cat", "dog"), "b": ("dog", "hot dog"), "ç": ("cat", "hot dog"), "d": ()}
    assert dataset[3].path == folder / "sub dir" / "ç.jpg"
    assert open_ground_truth(folder) is None


def test_csv_as_spreadsheets_write_it(folder):
    write(folder, b'\xef\xbb\xbfTags,Image,note\r\n"cat\r\ndog",a,x\r\n\r\ncat,b.PNG,\r\n')
    assert tags_of(opened(folder)) == {"a": ("cat", "dog"), "b": ("cat",)}


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_csv_with_other_delimiters(folder, delimiter):
    rows = ["image|tags|split", "a.jpg|cat dog|train", "b.PNG|dog, hot dog|train", 'd|"hot dog; cat"|train']
    write(folder, "\r\n".join(rows).replace("|", delimiter))
    assert tags_of(opened(folder)) == {"a": ("cat", "dog"), "b": ("dog", "hot dog"), "d": ("cat", "hot dog")}


def test_jsonl(folder):
    lines = [{"file_name": "a.jpg", "tags": ["cat", "hot dog"]}, {"file_name": "sub dir/d.jpg", "tags": "dog cat"}]
    write(folder, "\n\n".join(json.dumps(line) for line in lines), "metadata.jsonl")
    assert tags_of(opened(folder)) == {"a": ("cat", "hot dog"), "d": ("cat", "dog")}


@pytest.mark.parametrize("name", ["d.jpg", "d", "sub dir/d.jpg", "sub dir/d", "./sub dir/d.jpg", "sub dir\\d.jpg"])
def test_names_people_write(folder, name):
    write(folder, f"image,tags\n{name},cat\n")
    assert opened(folder).ids == ("d",)


def test_accents_of_another_system(folder):
    write(folder, f"image,tags\n{unicodedata.normalize('NFD', 'ç')}.jpg,cat\n")
    assert opened(folder).ids == ("ç",)


def test_an_image_twice_has_all_tags(folder):
    write(folder, "image,tags\na.jpg,cat\na,dog\n")
    assert tags_of(opened(folder)) == {"a": ("cat", "dog")}


def test_splits(folder):
    write(folder, "image,tags,split\na,cat,train\nb,dog,test\nç,cat,train\n")
    assert tags_of(opened(folder)) == {"a": ("cat",), "ç": ("cat",)}
    assert tags_of(opened(folder, split="test")) == {"b": ("dog",)}
    assert opened(folder).classes == ("cat", "dog")
    with pytest.raises(InputError, match="no split 'tset', only test, train; did you mean 'test'"):
        opened(folder, split="tset")


def test_file_named_itself_and_pictures_elsewhere(folder, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("lists") / "mine.csv"
    elsewhere.write_text("image,tags\na,cat\n")
    assert opened(elsewhere, images=folder).ids == ("a",)


def test_pictures_not_named_are_counted(folder):
    messages = []
    open_dataset(write(folder, "image,tags\na,cat\n"), warn=messages.append)
    assert messages == [f"ignored 3 pictures in {folder} that tags.csv does not name"]


def test_same_name_in_two_folders(folder, save_picture):
    save_picture(folder / "x" / "a.jpg")
    write(folder, "image,tags\nx/a.jpg,cat\na.jpg,dog\n")
    assert tags_of(opened(folder)) == {"a": ("dog",), "x/a": ("cat",)}
    save_picture(folder / "y" / "e.jpg")
    save_picture(folder / "z" / "e.jpg")
    write(folder, "image,tags\ne.jpg,cat\n")
    with pytest.raises(InputError, match=r"line 2: expected one picture 'e\.jpg', found y/e\.jpg, z/e\.jpg"):
        opened(folder)


def test_missing_images_are_counted_and_suggested(folder):
    missing = "".join(f"photo_{i}.jpg,cat\n" for i in range(8))
    write(folder, f"image,tags\nsub dir/dd.jpg,cat\n{missing}a,cat\n")
    with pytest.raises(
        InputError, match=r"tags\.csv names 9 pictures that are not in .*sub dir/dd\.jpg, photo_0.*4 more"
    ) as e:
        opened(folder)
    assert "did you mean 'sub dir/d.jpg'" in str(e.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"line 1: expected a header with the columns image and tags, found ''"),
        ("images,tags\na,cat\n", r"found 'images, tags'; rename 'images' to 'image'\?"),
        ("image,tagz\na,cat\n", r"found 'image, tagz'; rename 'tagz' to 'tags'\?"),
        ("image;split\na;cat\n", r"found 'image, split'$"),
        ("image;tags\na;cat;dog\n", r"line 2: expected 2 cells, found 3; tags with semicolons between"),
        ("image,tags\n", "expected a line per image, found none"),
        ("image,tags\na.jpg,cat\nb,cat,dog\n", r"line 3: expected 2 cells, found 3; .* quotes"),
        ('image,tags\na.jpg,"cat\n', r"line 2: expected CSV, found unexpected end of data"),
        ("image,tags\n,cat\n", "line 2: expected the name of an image"),
        (b"image,tags\na,cat\nb,caf\xe9\n", r"expected text in UTF-8, found byte 0xe9 in line 3"),
        ("image,tags\na,\nb,\n", "expected tags, found 2 images and not one tag"),
        ("image,tags,split\na,cat,train\nb,cat,\n", "line 3: expected a split as in the other lines"),
        (
            "image,tags,split\na,cat,train\na,dog,test\n",
            "line 3: 'a' is in split 'test', found it in 'train' in line 2",
        ),
    ],
)
def test_csv_that_does_not_fit(folder, text, message):
    with pytest.raises(InputError, match=message):
        opened(write(folder, text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"file_name": "a.jpg", "tags": []}\n{"file_name"}', r"line 2: expected a JSON object, found"),
        ('["a.jpg"]', "line 1: expected 'file_name' and 'tags'"),
        ('{"file_name": "a.jpg"}', "line 1: expected 'file_name' and 'tags'"),
        ('{"file_name": "a.jpg", "tags": [1]}', "line 1: expected 'file_name' and 'tags'"),
    ],
)
def test_jsonl_that_does_not_fit(folder, text, message):
    with pytest.raises(InputError, match=message):
        opened(write(folder, text, "metadata.jsonl"))


def test_two_tag_files(folder):
    write(folder, "image,tags\na,cat\n")
    write(folder, '{"file_name": "a.jpg", "tags": ["dog"]}', "metadata.jsonl")
    with pytest.raises(InputError, match=r"expected one tag file, found tags\.csv and metadata\.jsonl"):
        opened(folder)
    assert tags_of(opened(folder / "metadata.jsonl")) == {"a": ("dog",)}


def test_split_asked_of_a_file_without(folder):
    with pytest.raises(InputError, match="expected a column 'split'"):
        opened(write(folder, "image,tags\na,cat\n"), split="val")


words = st.text(st.characters(categories=["L", "N"]), min_size=1).map(lambda word: unicodedata.normalize("NFC", word))


@given(st.lists(words))
def test_single_words_survive_every_separator(tags):
    assert split_tags(" ".join(tags)) == split_tags("; ".join(tags)) == split_tags(",".join(tags)) == tags


@given(st.lists(st.lists(words, min_size=1).map(" ".join)))
def test_tags_of_several_words_survive_semicolons(tags):
    assert split_tags("".join(f"{tag};" for tag in tags)) == tags


@given(st.lists(st.lists(words, min_size=1).map(", ".join)))
def test_commas_inside_tags_survive_semicolons(tags):
    assert split_tags("".join(f"{tag};" for tag in tags)) == tags
