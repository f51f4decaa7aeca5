"""The review page over HTTP, for one person on this machine."""

import sqlite3
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from fastapi import FastAPI, Request, Response
from fastapi import Path as InPath
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from tag2box.errors import InputError
from tag2box.known import write_known
from tag2box.review.desk import Desk
from tag2box.review.guard import Guard
from tag2box.review.pictures import shown_picture
from tag2box.review.store import Outdated, Status

SCRIPTS = ("review.js", "tags.js", "scores.js", "following.js")
PAGE = {"index.html": "text/html", "review.css": "text/css"} | dict.fromkeys(SCRIPTS, "text/javascript")


class Wanted(BaseModel):
    """A decision on a class in a picture."""

    model_config = ConfigDict(extra="forbid")
    status: Status
    boxes: list[tuple[float, float, float, float]]
    based_on: int


class Step(BaseModel):
    """An undo or redo, from what the page has seen."""

    model_config = ConfigDict(extra="forbid")
    based_on: int


def make_app(desk: Desk, token: str) -> ASGIApp:
    """The page and what it asks, under /TOKEN/."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    _add_errors(app)
    _add_page(app)
    _add_pictures(app, desk)
    _add_decisions(app, desk)
    return Guard(app, token)


def _add_page(app: FastAPI) -> None:
    folder = files("tag2box.review") / "static"

    def serve(name: str, kind: str) -> Callable[[], Response]:
        content = (folder / name).read_bytes()
        return lambda: Response(content, media_type=kind)

    for name, kind in PAGE.items():
        app.add_api_route("/" if name == "index.html" else f"/{name}", serve(name, kind), methods=["GET"])


def _add_pictures(app: FastAPI, desk: Desk) -> None:
    number = Annotated[int, InPath(ge=0, lt=len(desk.images))]

    @app.get("/api/images/{image}")
    def image(image: number) -> dict[str, Any]:
        return desk.image(image)

    @app.get("/pictures/{image}")
    def picture(image: number) -> Response:
        content = shown_picture(desk.images[image].path)
        return Response(content, media_type="image/jpeg", headers={"Cache-Control": "private, max-age=3600"})


def _add_decisions(app: FastAPI, desk: Desk) -> None:
    number = Annotated[int, InPath(ge=0, lt=len(desk.images))]
    label = Annotated[int, InPath(ge=0, lt=len(desk.classes))]

    @app.get("/api/about")
    def about() -> dict[str, Any]:
        return desk.about()

    @app.get("/api/state")
    def state() -> dict[str, Any]:
        return desk.state()

    @app.put("/api/images/{image}/classes/{name}")
    def decide(image: number, name: label, wanted: Wanted) -> dict[str, Any]:
        desk.decide(image, name, wanted.status, wanted.boxes, wanted.based_on)
        return {"image": desk.image(image), "state": desk.state()}

    @app.post("/api/undo")
    def undo(step: Step) -> dict[str, Any]:
        return {"changed": desk.undo(step.based_on), "state": desk.state()}

    @app.post("/api/redo")
    def redo(step: Step) -> dict[str, Any]:
        return {"changed": desk.redo(step.based_on), "state": desk.state()}

    @app.get("/api/boxes.json")
    def export() -> Response:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "boxes.json"
            write_known(path, desk.known())
            content = path.read_bytes()
        headers = {"Content-Disposition": 'attachment; filename="boxes.json"'}
        return Response(content, media_type="application/json", headers=headers)


def _add_errors(app: FastAPI) -> None:
    """Whatever goes wrong is one line."""

    def answer(status: int, words: str) -> Response:
        return JSONResponse({"error": words}, status)

    @app.exception_handler(RequestValidationError)
    def invalid(_: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return answer(422, f"{where}: {first['msg']}")

    @app.exception_handler(InputError)
    def wrong(_: Request, error: InputError) -> Response:
        return answer(422, str(error))

    @app.exception_handler(Outdated)
    def outdated(_: Request, error: Outdated) -> Response:
        return answer(409, "this has been changed elsewhere, in another tab perhaps")

    @app.exception_handler(HTTPException)
    def refused(_: Request, error: HTTPException) -> Response:
        return answer(error.status_code, error.detail)

    @app.exception_handler(sqlite3.Error)
    def not_kept(_: Request, error: sqlite3.Error) -> Response:
        return answer(500, f"cannot keep this: {error}")
