"""Where objects could be: selective search, and the file that keeps its boxes."""
