"""What makes a site of `docs/`: its Markdown as the site reads it, the reference from the code, files of the house."""
