"""Teaching a model a person's own pictures."""
