"""Models that come with the package, and in `training` how they were made."""
