"""Recipes: found, layered, typed, refused in one line, and written back the same."""

import subprocess
import sys
from dataclasses import replace

import pytest

from tag2box.config import Data, Recipe, Rounds, load_recipe, recipe_from_values, write_recipe
from tag2box.errors import InputError
from tag2box.recipes import recipe_names


def test_the_paper_s_constants():
    recipe = load_recipe("paper")
    rounds = recipe.rounds
    assert (rounds.samples, rounds.loss_ratio, rounds.gamma, rounds.epsilon) == (5, 3.0, 0.5, 1.0)
    assert (rounds.threshold, rounds.number, recipe.backbone.name) == (0.2, 6, "vgg16")


@pytest.mark.parametrize("name", ["demo", "fast", "paper", "voc07"])
def test_packaged_recipes_round_trip(name, tmp_path):
    recipe = load_recipe(name)
    write_recipe(recipe, tmp_path / "args.yaml", comment="tag2box train photos/")
    assert (tmp_path / "args.yaml").read_text().startswith("# tag2box train photos/\n")
    assert load_recipe(tmp_path / "args.yaml") == recipe
    assert recipe_from_values(recipe.as_dict(), "here") == recipe


def test_names():
    assert recipe_names() == ["demo", "fast", "paper", "voc07", "voc07_vgg16"]


def test_a_file_builds_on_a_base(tmp_path):
    (tmp_path / "mine.yaml").write_text("base: demo\nrounds: {number: 9}\n")
    (tmp_path / "deeper.yaml").write_text("base: mine.yaml\nrounds: {gamma: 0.25}\nseed: 4\n")
    demo, deeper = load_recipe("demo"), load_recipe(str(tmp_path / "deeper.yaml"))
    assert deeper == replace(demo, seed=4, rounds=replace(demo.rounds, number=9, gamma=0.25))


def test_an_empty_file_is_the_defaults(tmp_path):
    (tmp_path / "empty.yaml").write_text("")
    assert load_recipe(tmp_path / "empty.yaml") == Recipe()


def test_numbers_as_yaml_would_not_read_them(tmp_path):
    (tmp_path / "rate.yaml").write_text("warm: {rate: 1e-3}\nhead: {size: 7, width: null}\nrounds: {gamma: 1}\n")
    recipe = load_recipe(tmp_path / "rate.yaml")
    assert recipe.warm.rate == 1e-3
    assert recipe.rounds.gamma == 1.0
    assert isinstance(recipe.rounds.gamma, float)
    assert (recipe.head.size, recipe.head.width) == (7, None)


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("data.scales", "240,320", (240, 320)),
        ("data.scales", "[240, 320]", (240, 320)),
        ("data.scales", [240, 320], (240, 320)),
        ("data.scales", "240", (240,)),
        ("data.scales", 240, (240,)),
        ("data.flip", "false", False),
        ("data.flip", True, True),
        ("head.width", "none", None),
        ("head.width", "512", 512),
        ("backbone.weights", "none", "none"),
        ("backbone.weights", "12", "12"),
        ("backbone.frozen", "all", "all"),
        ("rounds.epsilon", "-1e-2", -0.01),
        ("warm.epochs", "7", 7),
        ("warm.votes", "true", True),
        ("data.resident", "off", "off"),
    ],
)
def test_overrides_take_the_field_s_type(field, value, expected):
    section, name = field.split(".")
    found = getattr(getattr(load_recipe("paper", {field: value}), section), name)
    assert found == expected
    assert type(found) is type(expected)


def test_overrides_leave_the_rest():
    recipe = load_recipe("demo", {"rounds.number": 3, "seed": "7"})
    demo = load_recipe("demo")
    assert recipe == replace(demo, seed=7, rounds=replace(demo.rounds, number=3))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"runds.number": 3}, r"found 'runds'; did you mean 'rounds'\?"),
        ({"rounds.numbr": 3}, r"a field of rounds .* found 'numbr'; did you mean 'number'\?"),
        ({"rounds.number": "many"}, r"rounds.number: expected a whole number, found 'many'"),
        ({"rounds.number": 2.5}, r"rounds.number: expected a whole number, found 2.5"),
        ({"rounds.number": True}, r"expected a whole number, found True"),
        ({"rounds.number": -1}, r"rounds.number: expected 0 or more, found -1"),
        ({"rounds.gamma": "nan"}, r"rounds.gamma: expected a number, found 'nan'"),
        ({"rounds.gamma": 2}, r"rounds.gamma: expected a share between 0 and 1, found 2.0"),
        ({"rounds.gamma": 1.5}, r"rounds.gamma: expected a share between 0 and 1, found 1.5"),
        ({"rounds.parts": 2}, r"rounds.parts: expected a share between 0 and 1, found 2"),
        ({"data.resident": "onn"}, r"data.resident: expected auto or on or off, found 'onn'; did you mean 'on'\?"),
        ({"rounds.epsilon": 0}, r"rounds.epsilon: expected a number other than 0"),
        ({"rounds.epsilon_decay": 0}, r"rounds.epsilon_decay: expected a number other than 0"),
        ({"data.flip": 1}, r"data.flip: expected true or false, found 1"),
        ({"data.scales": ""}, r"data.scales: expected a whole number, found ''"),
        ({"data.scales": []}, r"data.scales: expected one or more"),
        ({"data.scales": "200,0"}, r"data.scales: expected 1 or more, found \(200, 0\)"),
        ({"backbone.frozen": "erly"}, r"expected early or all or none, found 'erly'; did you mean 'early'\?"),
        ({"backbone.name": 16}, r"backbone.name: expected text, found 16"),
        ({"rounds": 3}, r"rounds: expected fields \(number, .*found 3"),
        ({"seed.more": 3}, r"seed: expected a whole number"),
    ],
)
def test_what_does_not_fit(overrides, message):
    with pytest.raises(InputError, match=message) as caught:
        load_recipe("paper", overrides)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rounds: {number: x}", "recipe .*bad.yaml: rounds.number: expected a whole number"),
        ("rounds: [", "bad.yaml: expected YAML"),
        ("- 1", "bad.yaml: expected sections and fields, found list"),
        ("base: fastt", "found 'fastt'; did you mean 'fast'"),
        ("base: bad.yaml", "builds on itself"),
        ("rounds: 3", "bad.yaml: rounds: expected fields"),
    ],
)
def test_a_file_that_does_not_fit(text, message, tmp_path):
    (tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        load_recipe(tmp_path / "bad.yaml")
    assert "\n" not in str(caught.value)


def test_no_such_recipe():
    with pytest.raises(
        InputError, match=r"expected a recipe \(demo, fast, paper, voc07, voc07_vgg16\) .* did you mean 'paper'\?"
    ):
        load_recipe("papr")


def test_defaults_are_those_of_the_dataclasses():
    assert load_recipe("paper").data == Data()
    assert load_recipe("paper").rounds == Rounds()


def test_the_fields_need_no_yaml_and_no_torch():
    code = "import sys, tag2box.config; print({'yaml', 'torch', 'jsonargparse'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "set()"


@pytest.mark.parametrize(("written", "meant"), [("off", "off"), ("on", "on"), ("'off'", "off"), ("auto", "auto")])
def test_a_bare_on_or_off_in_yaml_is_a_choice(tmp_path, written, meant):
    file = tmp_path / "recipe.yaml"
    file.write_text(f"data: {{resident: {written}}}\n")
    assert load_recipe(file).data.resident == meant


@pytest.mark.parametrize(
    ("backbone", "teacher"),
    [
        ({"backbone.name": "resnet50", "backbone.weights": "r.pth"}, ("resnet50", "r.pth")),
        ({"backbone.name": "vgg16"}, ("", "pretrained")),  # it ends in fully connected layers
        ({"backbone.name": "resnet18", "backbone.weights": "none"}, ("", "none")),  # it has learnt nothing
        ({"backbone.name": "resnet18", "teacher.name": "resnet50"}, ("resnet50", "pretrained")),
        ({"backbone.name": "resnet18", "teacher.name": ""}, ("", "pretrained")),
    ],
)
def test_the_trunk_s_own_net_as_a_teacher(backbone, teacher, tmp_path):
    recipe = load_recipe("paper", {"teacher.name": "backbone", **backbone})
    assert (recipe.teacher.name, recipe.teacher.weights) == teacher
    write_recipe(recipe, tmp_path / "again.yaml")
    assert load_recipe(tmp_path / "again.yaml") == recipe


@pytest.mark.parametrize(("backbone", "kind"), [("resnet18", "cut"), ("vgg16", "mlp"), ("tiny", "mlp")])
def test_a_net_without_a_last_stage_does_not_look_at_what_is_cut_out(backbone, kind):
    assert load_recipe("paper", {"head.kind": "cut", "backbone.name": backbone}).head.kind == kind


@pytest.mark.parametrize(("name", "kept"), [("fast", False), ("voc07", False), ("paper", True), ("demo", True)])
def test_what_is_not_learnt_from_has_no_hints(name, kept):
    """Nor then a promise, where hints are what it goes by."""
    recipe = load_recipe(name, {"rounds.promise": 3.0})
    assert recipe.without_hints().rounds.promise == (3.0 if kept else 0.0)
    assert recipe.without_hints().as_dict() | {"rounds": None} == recipe.as_dict() | {"rounds": None}
