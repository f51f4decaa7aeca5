"""`tag2box proposals DATA`: proposals for every picture, kept in one file, and how many objects they reach."""

import time
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from tag2box.data import Dataset, folder_of, open_dataset, open_ground_truth
from tag2box.data.ground_truth import GroundTruth
from tag2box.errors import InputError
from tag2box.evaluation.plots import plot_recall
from tag2box.evaluation.recall import proposal_recall
from tag2box.evaluation.scores import as_json
from tag2box.evaluation.tables import counted, recall_table
from tag2box.files import make_folder, require_writable, write_atomically
from tag2box.proposals.compute import compute_proposals
from tag2box.proposals.outside import import_proposals
from tag2box.proposals.selective_search import preset as find_preset
from tag2box.proposals.store import OURS, ProposalStore
from tag2box.report.pictures import proposals_sheet


def propose_dataset(
    data: Path,
    *,
    split: str | None = None,
    images: Path | None = None,
    preset: str = "fast",
    source: Path | None = None,
    out: Path | None = None,
    workers: int | None = None,
    overwrite: bool = False,
    skip_bad_images: bool = False,
    json_out: Path | None = None,
) -> ProposalStore:
    """Compute the proposals, or take them over from `source`, and report on them.

    A store that is already there is used, and brought up to date where images have been added since.
    """
    settings = find_preset(preset)
    if workers is not None and workers < 1:
        raise InputError(f"expected at least one worker, found {workers}")
    if out is not None and out.is_dir():
        raise InputError(f"expected the name of a file to write, found a folder: {out}")
    dataset = open_dataset(data, split, images=images, skip_bad_images=skip_bad_images)
    truth = open_ground_truth(data, split, images=images)
    path = out or store_path(data, dataset.split, preset if source is None else source.stem)
    if source is not None:
        _require_free(path, overwrite)
    if json_out is not None:
        make_folder(json_out.parent)
        require_writable(json_out)
    before = path.stat().st_mtime_ns if path.exists() else None
    began = time.monotonic()
    if source is not None:
        store = import_proposals(source, dataset, path)
    else:
        store = compute_proposals(dataset, path, settings, workers=workers, overwrite=overwrite, ours=out is None)
    console = Console(highlight=False)
    took = "reused" if path.stat().st_mtime_ns == before else f"{time.monotonic() - began:.1f} s"
    mean = sum(len(store[id]) for id in dataset.ids) / len(dataset)
    summary = f"{counted(len(dataset), 'image')}, {mean:,.0f} boxes an image on average, {took}"
    console.print(f"{store.path}: {summary}", soft_wrap=True)
    if truth is not None:
        report_recall(dataset, truth.subset(dataset.ids), store, console, json_out)
    elif json_out is not None:
        write_atomically(json_out, as_json({"images": len(dataset), "boxes_per_image": mean}))
    return store


def report_recall(
    dataset: Dataset, truth: GroundTruth, store: ProposalStore, console: Console, json_out: Path | None
) -> None:
    """Print which objects the proposals reach; beside the store, the curve and pictures of the best ones."""
    report = proposal_recall(truth, store.__getitem__)
    console.print(recall_table(report))
    plot, pictures = store.path.with_suffix(".recall.png"), store.path.with_suffix(".best.jpg")
    plot_recall(report, plot)
    proposals_sheet(dataset, truth, store, pictures)
    if json_out is not None:
        write_atomically(json_out, as_json(asdict(report)))
    console.print(f"recall against number of boxes: {plot}\neach object's best box: {pictures}", soft_wrap=True)


def store_path(data: Path, split: str, setting: str) -> Path:
    """Where the proposals of a data set are kept when nothing else is said."""
    return folder_of(data) / OURS / f"proposals-{split}-{setting}.safetensors"


def _require_free(path: Path, overwrite: bool) -> None:
    if path.exists() and not overwrite:
        raise InputError(f"{path} is there already; replace it with --overwrite or write elsewhere with --out")
