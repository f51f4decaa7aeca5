"""The loop: a warm start, then rounds of coordinate descent. Nothing in here can see a box that somebody drew."""
