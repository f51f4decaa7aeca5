"""`tag2box report RUN`: the page of a run, from its folder alone."""

from pathlib import Path

from rich.console import Console

from tag2box.commands.run_folder import SETTINGS
from tag2box.errors import InputError
from tag2box.files import make_folder, require_writable
from tag2box.report.page import write_report


def report(run: Path, *, title: str = "", out: Path | None = None) -> Path:
    """Write the page and say where it is; its path."""
    if not run.is_dir():
        raise InputError(f"expected a run directory, found {'a file' if run.exists() else 'nothing'} at {run}")
    if not (run / SETTINGS).is_file():
        raise InputError(f"expected a run directory, found a folder without {SETTINGS}: {run}")
    if out is not None:
        make_folder(out.parent)
    require_writable(run / "report.html" if out is None else out)
    page = write_report(run, title=title, out=out)
    Console(highlight=False).print(f"the report: {page}", soft_wrap=True, markup=False)
    return page
