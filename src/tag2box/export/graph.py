"""The whole detector as one ONNX graph: the net, and around it `tag2box.inference` in ONNX's own notation.

Sizes and factors are computed in double precision, as Python does: a side rounded the other way is another picture.
"""

from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tag2box.config import Inference, Recipe
from tag2box.export.net import OPSET, head_model, net_model, proposer_model
from tag2box.inference import AMONG, LANDED
from tag2box.landing import SAME, SIZE, SURE
from tag2box.nets import PredictionNet, proposer
from tag2box.overlap import INSIDE

if TYPE_CHECKING:
    import onnx  # an extra

IR_VERSION = 10
"""Of the file's outer form; onnxruntime reads it from 1.18 on."""
CLASS_SCORES, CLASS_BOXES = "class_scores", "class_boxes"
"""Values inside the graph before any is left out: [B, C] and [B, C, 4], of the B proposals that are tried."""

# Resize: at the picture's edge PyTorch smooths over the pixels that are there, hence exclude_outside.
# NonMaxSuppression: classes have boxes of their own, so each passes for a picture. It takes scores above a threshold,
# and we take those that reach it, so the others are put at −1 first. Its result is class after class, and best first
# within; TopK leaves equals in their order, so two of them make it best first, then by proposal, then by class.
_GRAPH = """
detector (uint8[height, width, 3] image, $PROPOSALS float score, float nms, int64 max_detections) =>
    (float[D, 4] boxes, float[D] scores, int64[D] labels)
<
    double[1] short_side, double[1] max_side, int64[1] max_proposals,
    int64[1] i0 = {0}, int64[1] i1 = {1}, int64[1] i2 = {2}, int64[1] i4 = {4}, int64[1] last = {9223372036854775807},
    int64[1] i3 = {3}, int64[3] one_one_four = {1, 1, 4}, int64[1] landed, float same, float unsure, float sure,
    int64[2] i01 = {0, 1}, int64[1] first_spots, int64 most_spots, float spot_nms, float least_spot,
    float float_one = {1.0}, float size_power, float lift = {100.0},
    int64[2] one_in_colour = {1, 3}, int64[4] xyxy = {1, 0, 1, 0}, int64 class_column = {0},
    int64 proposal_column = {2}, int64[2] class_and_proposal = {0, 2}, double[1] one = {1.0}, float nothing = {0.0},
    float out = {-1.0}, float above_out = {-0.5}, float inside, float parts,
    int64 among
>
{
    size = Shape <start = 0, end = 2> (image)
    sides = Cast <to = 11> (size)
    shortest = ReduceMin (sides, i0)
    longest = ReduceMax (sides, i0)
    by_shortest = Div (short_side, shortest)
    by_longest = Div (max_side, longest)
    factor = Min (by_shortest, by_longest)
    exact_sides = Mul (sides, factor)
    whole_sides = Round (exact_sides)
    new_sides = Max (whole_sides, one)
    ratio = Div (new_sides, sides)
    growth = Gather (ratio, xyxy)
    shrinkage = Div (one, growth)

    channels = Transpose <perm = [2, 0, 1]> (image)
    values = Cast <to = 1> (channels)
    picture = Unsqueeze (values, i0)
    new_size = Cast <to = 7> (new_sides)
    new_shape = Concat <axis = 0> (one_in_colour, new_size)
    pixels = Resize <mode = "linear", coordinate_transformation_mode = "half_pixel", antialias = 1, exclude_outside = 1>
        (picture, , , new_shape)
$LOOK
    class_scores = Slice (probabilities, i1, last, i1)
    without_background = Slice (regressed, i1, last, i1)
    box_shrinkage = Cast <to = 1> (shrinkage)
    in_image = Mul (without_background, box_shrinkage)
    from_nothing = Max (in_image, nothing)
    corner = Gather (size, xyxy)
    edge = Cast <to = 1> (corner)
    class_boxes = Min (from_nothing, edge)

    low = Slice (class_boxes, i0, i2, i2)
    high = Slice (class_boxes, i2, i4, i2)
    box_sides = Sub (high, low)
    least_side = ReduceMin <keepdims = 0> (box_sides, i2)
    has_area = Greater (least_side, nothing)
$ORDER
    scores_of_class = Unsqueeze (ranks_by_class, i1)
    compared = Max (max_detections, among)
    thinned = NonMaxSuppression (boxes_by_class, scores_of_class, compared, nms, above_out)
    where_thinned = Gather <axis = 1> (thinned, class_and_proposal)
    thinned_scores = GatherND (scores_by_class, where_thinned)
    is_enough = GreaterOrEqual (thinned_scores, score)
    kept = Compress <axis = 0> (thinned, is_enough)

    kept_number = Shape <start = 0, end = 1> (kept)
    kept_proposal = Gather <axis = 1> (kept, proposal_column)
    _, by_proposal = TopK <largest = 0> (kept_proposal, kept_number)
    tidy = Gather (kept, by_proposal)
    where_kept = Gather <axis = 1> (tidy, class_and_proposal)
    kept_scores = GatherND (scores_by_class, where_kept)
    kept_boxes = GatherND (boxes_by_class, where_kept)
    kept_labels = Gather <axis = 1> (tidy, class_column)
    number = Min (kept_number, compared)
    best_scores, order = TopK (kept_scores, number)
    best_boxes = Gather (kept_boxes, order)
    best_labels = Gather (kept_labels, order)

$PAIRS_OF_BEST
    most_of_it = Mul (best_area_down, inside)
    lies_in = GreaterOrEqual (best_shared, most_of_it)
    is_larger = Greater (best_area_across, best_area_down)
    label_down = Unsqueeze (best_labels, i1)
    label_across = Unsqueeze (best_labels, i0)
    is_alike = Equal (label_down, label_across)
    score_down = Unsqueeze (best_scores, i1)
    score_across = Unsqueeze (best_scores, i0)
    enough = Mul (score_down, parts)
    is_sure = GreaterOrEqual (score_across, enough)
    lies_in_larger = And (lies_in, is_larger)
    is_alike_and_sure = And (is_alike, is_sure)
    is_part_of = And (lies_in_larger, is_alike_and_sure)
    part_of = Cast <to = 1> (is_part_of)
    wholes = ReduceSum <keepdims = 0> (part_of, i1)
    is_whole = Equal (wholes, nothing)
    whole_boxes = Compress <axis = 0> (best_boxes, is_whole)
    whole_scores = Compress <axis = 0> (best_scores, is_whole)
    whole_labels = Compress <axis = 0> (best_labels, is_whole)
    most = Reshape (max_detections, i1)
    boxes = Slice (whole_boxes, i0, most, i0)
    scores = Slice (whole_scores, i0, most, i0)
    labels = Slice (whole_labels, i0, most, i0)
}
"""

# `tag2box.overlap` of all pairs of boxes [..., D, 4]: the area that two share [..., D, D], their sides and areas.
_PAIRS = """
    $N_low = Slice ($BOXES, i0, i2, $LAST)
    $N_high = Slice ($BOXES, i2, i4, $LAST)
    $N_low_down = Unsqueeze ($N_low, $LAST)
    $N_low_across = Unsqueeze ($N_low, $BEFORE)
    $N_high_down = Unsqueeze ($N_high, $LAST)
    $N_high_across = Unsqueeze ($N_high, $BEFORE)
    $N_shared_low = Max ($N_low_down, $N_low_across)
    $N_shared_high = Min ($N_high_down, $N_high_across)
    $N_shared_difference = Sub ($N_shared_high, $N_shared_low)
    $N_shared_sides = Max ($N_shared_difference, nothing)
    $N_shared = ReduceProd <keepdims = 0> ($N_shared_sides, $AFTER)
    $N_sides = Sub ($N_high, $N_low)
    $N_area = ReduceProd <keepdims = 0> ($N_sides, $LAST)
    $N_area_down = Unsqueeze ($N_area, $LAST)
    $N_area_across = Unsqueeze ($N_area, $BEFORE)
"""
_GIVEN = """
    first_proposals = Slice (proposals, i0, max_proposals, i0)
    box_growth = Cast <to = 1> (growth)
    tried = Mul (first_proposals, box_growth)
    probabilities, regressed = Net (pixels, tried)
"""
# `nets.proposer`: clipped, the best of them, thinned, the best of what is left.
_OWN = """
    map, spot_chances, spots = Propose (pixels)
    shown_corner = Gather (new_sides, xyxy)
    shown_edge = Cast <to = 1> (shown_corner)
    spots_from_nothing = Max (spots, nothing)
    spots_inside = Min (spots_from_nothing, shown_edge)
    spot_number = Shape (spot_chances)
    first_number = Min (spot_number, first_spots)
    first_chances, first_rows = TopK (spot_chances, first_number)
    first_boxes = Gather (spots_inside, first_rows)
    spot_low = Slice (first_boxes, i0, i2, i1)
    spot_high = Slice (first_boxes, i2, i4, i1)
    spot_sides = Sub (spot_high, spot_low)
    narrowest = ReduceMin <keepdims = 0> (spot_sides, i1)
    is_spot = GreaterOrEqual (narrowest, least_spot)
    certain = Sigmoid (first_chances)
    certain_spots = Where (is_spot, certain, out)
    scores_of_spots = Unsqueeze (certain_spots, i01)
    boxes_of_spots = Unsqueeze (first_boxes, i0)
    kept_spots = NonMaxSuppression (boxes_of_spots, scores_of_spots, most_spots, spot_nms, above_out)
    kept_rows = Gather <axis = 1> (kept_spots, proposal_column)
    tried = Gather (first_boxes, kept_rows)
    probabilities, regressed = Net (map, tried)
"""
_BY_SCORE = """
    reaches = GreaterOrEqual (class_scores, score)
    wanted = And (has_area, reaches)
    wanted_scores = Where (wanted, class_scores, out)
    scores_by_class = Transpose <perm = [1, 0]> (wanted_scores)
    boxes_by_class = Transpose <perm = [1, 0, 2]> (class_boxes)
    ranks_by_class = Identity (scores_by_class)
"""
# `tag2box.landing` of each class's best by score. What speaks for a box is never lower than −`lift`.
_BY_LANDING = """
    sound_scores = Where (has_area, class_scores, out)
    all_scores = Transpose <perm = [1, 0]> (sound_scores)
    all_boxes = Transpose <perm = [1, 0, 2]> (class_boxes)
    tried_number = Shape <start = 1, end = 2> (all_scores)
    landed_number = Min (tried_number, landed)
    scores_by_class, best_rows = TopK <axis = 1> (all_scores, landed_number)
    best_row = Unsqueeze (best_rows, i2)
    four_times = Tile (best_row, one_one_four)
    boxes_by_class = GatherElements <axis = 1> (all_boxes, four_times)

$PAIRS_THAT_LAND
    areas = Add (land_area_down, land_area_across)
    either = Sub (areas, land_shared)
    land_overlap = Div (land_shared, either)
    is_same = GreaterOrEqual (land_overlap, same)
    votes_for = Cast <to = 1> (is_same)
    chances = Clip (scores_by_class, unsure, sure)
    votes_of = Unsqueeze (chances, i2)
    votes_there = MatMul (votes_for, votes_of)
    votes_flat = Squeeze (votes_there, i2)
    votes = Max (votes_flat, unsure)
    chances_left = Sub (float_one, chances)
    odds = Div (chances, chances_left)
    log_odds = Log (odds)
    log_votes = Log (votes)
    least_sides = Max (land_sides, float_one)
    least_area = ReduceProd <keepdims = 0> (least_sides, i2)
    log_area = Log (least_area)
    for_size = Mul (log_area, size_power)
    for_both = Add (log_odds, log_votes)
    speaks = Sub (for_both, for_size)
    lifted = Add (speaks, lift)
    is_sound = GreaterOrEqual (scores_by_class, nothing)
    ranks_by_class = Where (is_sound, lifted, out)
"""


def detector_model(net: PredictionNet, recipe: Recipe, settings: Inference) -> "onnx.ModelProto":
    """`Detector.detect` of a net on the CPU, as one graph, at the first scale of `settings` and not mirrored.

    A net that proposes takes a picture alone.
    The thresholds of `settings` are defaults: inputs that need not be given.
    """
    import onnx

    given = net.proposer is None
    text = _GRAPH.replace("$PROPOSALS", "float[B, 4] proposals," if given else "")
    text = text.replace("$LOOK", _GIVEN if given else _OWN)
    text = text.replace("$ORDER", _BY_LANDING if settings.landing else _BY_SCORE)
    text = text.replace("$PAIRS_OF_BEST", _pairs("best", "best_boxes", 1))
    graph = onnx.parser.parse_graph(text.replace("$PAIRS_THAT_LAND", _pairs("land", "boxes_by_class", 2)))
    values: dict[str, NDArray[Any]] = {
        "short_side": np.array([settings.scales[0]], np.float64),
        "max_side": np.array([recipe.data.max_side], np.float64),
        "max_proposals": np.array([recipe.looked_at], np.int64),
        "score": np.array(settings.min_score, np.float32),
        "nms": np.array(settings.nms, np.float32),
        "max_detections": np.array(settings.max_detections, np.int64),
        "inside": np.array(INSIDE, np.float32),
        "first_spots": np.array([proposer.AMONG], np.int64),
        "most_spots": np.array(min(proposer.NUMBER, recipe.data.max_proposals), np.int64),
        "spot_nms": np.array(proposer.NMS, np.float32),
        "least_spot": np.array(proposer.LEAST, np.float32),
        "landed": np.array([LANDED], np.int64),
        "same": np.array(SAME, np.float32),
        "unsure": np.array(SURE, np.float32),
        "sure": np.array(1 - SURE, np.float32),
        "size_power": np.array(SIZE, np.float32),
        # The first by landing need not be the first by score, so that all of them have to stay until the end.
        "among": np.array(AMONG if settings.parts else LANDED if settings.landing else 0, np.int64),
        "parts": np.array(settings.parts or np.inf, np.float32),  # no score is infinitely large: all stay
    }
    graph.initializer.extend(onnx.numpy_helper.from_array(value, name) for name, value in values.items())
    if given:
        _put_in(graph, "Net", net_model(net).graph)
    else:
        _put_in(graph, "Propose", proposer_model(net).graph)
        _put_in(graph, "Net", head_model(net).graph)
    _drop_unused(graph)
    opset = onnx.helper.make_opsetid("", OPSET)
    model = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=IR_VERSION)
    onnx.checker.check_model(model, full_check=True)
    return model


def _pairs(name: str, boxes: str, last: int) -> str:
    """The lines of `_PAIRS` for boxes whose sides are their dimension `last`; what they give begins with the name."""
    words = {"$N": name, "$BOXES": boxes, "$LAST": f"i{last}", "$BEFORE": f"i{last - 1}", "$AFTER": f"i{last + 1}"}
    return reduce(lambda text, word: text.replace(word, words[word]), words, _PAIRS)


def _drop_unused(graph: "onnx.GraphProto") -> None:
    """Numbers that no node asks for, of parts that this graph does without: onnxruntime would warn of each."""
    used = {name for node in graph.node for name in node.input} | {one.name for one in graph.input}
    kept = [one for one in graph.initializer if one.name in used]
    del graph.initializer[:]
    graph.initializer.extend(kept)


def _put_in(graph: "onnx.GraphProto", name: str, net: "onnx.GraphProto") -> None:
    """A net's nodes and weights in the place of the node that stands for them."""
    from onnx.compose import add_prefix_graph

    net = add_prefix_graph(net, f"{name.lower()}/", rename_inputs=False, rename_outputs=False, inplace=True)
    for node in net.node:
        del node.metadata_props[:]  # where in whose Python each was made
    place = [node.op_type for node in graph.node].index(name)
    nodes = [*graph.node[:place], *net.node, *graph.node[place + 1 :]]
    del graph.node[:], graph.value_info[:]
    graph.node.extend(nodes)
    graph.initializer.extend(net.initializer)
