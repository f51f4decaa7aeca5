"""What happens when a command is called: one module each, which puts the rooms together and prints."""
