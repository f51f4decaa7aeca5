"""What goes out: a tagged data set with boxes, in the formats of other tools."""
