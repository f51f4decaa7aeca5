"""What is found, measured: VOC AP, CorLoc, COCO AP, and the recall of proposals. The only room that sees true boxes."""
