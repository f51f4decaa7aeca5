"""What comes in: pictures and their tags in any of the usual formats, and for evaluation alone, boxes."""

from tag2box.data.ground_truth import GroundTruth
from tag2box.data.images import read_image
from tag2box.data.opening import folder_of, open_dataset, open_ground_truth
from tag2box.data.records import Dataset, TaggedImage

__all__ = ["Dataset", "GroundTruth", "TaggedImage", "folder_of", "open_dataset", "open_ground_truth", "read_image"]
