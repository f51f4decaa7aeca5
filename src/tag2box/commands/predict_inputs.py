"""What `tag2box predict` is to look at: files, folders, patterns, videos; each with an id and a name for its result."""

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from tag2box.about import read_about
from tag2box.commands.predict_video import Video, is_video_name, probe_video
from tag2box.data.files import find_images, is_image_name, require_exists
from tag2box.data.images import survey
from tag2box.data.listing import make_ids
from tag2box.errors import InputError, name_some
from tag2box.evaluation.tables import counted

_PHOTOS = (".jpg", ".jpeg", ".webp", ".avif", ".mpo")  # drawn on, these become JPEG again; others PNG


@dataclass(frozen=True, slots=True)
class Input:
    """A picture or a video."""

    path: Path
    id: str
    """Its name without extension; with its folder, or its extension, where another has the same."""
    out: str
    """The annotated file's name in the folder of results; no two are alike, also where capitals do not count."""
    frames: int = 1
    rate: float = 1.0
    """Frames a second."""

    @property
    def is_video(self) -> bool:
        """Whether it has frames."""
        return is_video_name(self.path.name)


def find_inputs(asked: Sequence[str]) -> list[Input]:
    """Everything that was asked for, in that order, once each. Opens no picture."""
    paths = list({os.path.abspath(path): path for one in asked for path in _expand(one)}.values())  # noqa: PTH100 - as typed
    ids = _make_ids(paths)
    return [Input(*row) for row in zip(paths, ids, _make_names(paths, ids), strict=True)]


def without_bad(inputs: Sequence[Input], *, skip: bool) -> tuple[list[Input], list[str]]:
    """Those that can be read, and with `skip` what is wrong with the others; else these are all named and refused."""
    pictures = [one.path for one in inputs if not one.is_video]
    seen: dict[Path, object] = dict(zip(pictures, survey(pictures), strict=True))
    seen |= {one.path: probe_video(one.path) for one in inputs if one.is_video}
    bad = [f"{path} ({reason})" for path, reason in seen.items() if isinstance(reason, str)]
    count = f"{len(bad)} bad image{'s' if len(bad) > 1 else ''}"
    if bad and len(bad) == len(inputs):
        raise InputError(f"expected pictures, found only {count}: {', '.join(bad)}")
    if bad and not skip:
        raise InputError(f"found {count} (--skip-bad-images goes on without): {', '.join(bad)}")
    good = []
    for one in inputs:
        match seen[one.path]:
            case Video(rate=rate, frames=frames):
                good.append(replace(one, frames=frames, rate=rate))
            case tuple():
                good.append(one)
    return good, bad


def _expand(asked: str) -> Iterator[Path]:
    if not asked:  # an empty variable of a shell; it would be the folder one is in
        raise InputError("expected a picture, found an empty name")
    path = Path(asked).expanduser()
    if path.is_dir():
        yield from _in_folder(path)
    elif path.exists() or not glob.has_magic(asked):  # a name may have brackets in it
        yield require_exists(path)
    else:
        matches = [Path(match) for match in sorted(glob.glob(str(path), recursive=True))]  # noqa: PTH207 - a whole pattern
        looked_at = [match for match in matches if match.is_dir() or _is_looked_at(match.name)]
        if not looked_at:
            found = f"{len(matches)} other files" if matches else "nothing"
            raise InputError(f"expected pictures or videos that match {asked}, found {found}")
        for match in looked_at:
            # `**` matches folders and what is in them: twice the same, which is then counted once.
            yield from _in_folder(match, some=False) if match.is_dir() else (match,)


def _in_folder(folder: Path, *, some: bool = True) -> list[Path]:
    """The pictures at any depth, without those that an earlier command has written in there."""
    found = _not_ours(find_images(folder), folder)
    if some and not found:
        raise InputError(f"{folder}: expected pictures, found none{_videos_there(folder)}")
    return found


def passed_over(asked: Sequence[str], inputs: Sequence[Input]) -> list[Path]:
    """Videos in the folders that were asked for: they take long, and are looked at when they are named."""
    folders = [path for path in (Path(one).expanduser() for one in asked) if path.is_dir()]
    videos = {os.path.abspath(path): path for folder in folders for path in _videos_in(folder)}  # noqa: PTH100
    named = {os.path.abspath(one.path) for one in inputs}  # noqa: PTH100
    return [path for where, path in videos.items() if where not in named]


def _videos_there(folder: Path) -> str:
    videos = _videos_in(folder)
    return f" but {counted(len(videos), 'video')}, to be named each: {name_some(map(str, videos))}" if videos else ""


def _videos_in(folder: Path) -> list[Path]:
    return _not_ours(find_images(folder, is_video_name), folder)


def _not_ours(found: Sequence[Path], folder: Path) -> list[Path]:
    """Less what is in folders of results below the folder."""
    below = {parent for path in found for parent in path.parents if folder in parent.parents}
    ours = {parent for parent in below if read_about(parent)}
    return [path for path in found if ours.isdisjoint(path.parents)]


def _is_looked_at(name: str) -> bool:
    return is_image_name(name) or is_video_name(name)


def _make_ids(paths: Sequence[Path]) -> list[str]:
    """By name, and where names repeat by the way from the folder that all have in common."""
    full = [Path(os.path.abspath(path)) for path in paths]  # noqa: PTH100 - links are not followed
    root = Path(os.path.commonpath([path.parent for path in full])) if full else Path()
    ids = make_ids([path.relative_to(root).as_posix() for path in full])
    # Frames are called clip/000012; should pictures in a folder have such names, the video keeps its extension.
    folders = {parent.as_posix() for id in ids for parent in PurePosixPath(id).parents}
    return [id + path.suffix * (is_video_name(path.name) and id in folders) for id, path in zip(ids, full, strict=True)]


def _make_names(paths: Sequence[Path], ids: Sequence[str]) -> list[str]:
    names: dict[str, str] = {}
    for path, id in zip(paths, ids, strict=True):
        kind = ".mp4" if is_video_name(path.name) else ".jpg" if path.suffix.lower() in _PHOTOS else ".png"
        stem = str(PurePosixPath(id).with_suffix("")) if id.endswith(path.suffix) and path.suffix else id
        name, number = stem + kind, 1
        while name.casefold() in names:
            number += 1
            name = f"{stem}-{number}{kind}"
        names[name.casefold()] = name
    return list(names.values())
