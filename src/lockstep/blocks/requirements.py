"""What blocks need besides Lockstep: packages and versions that a block of somebody's names in `_requirements`."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from importlib import metadata
from typing import Any

logger = logging.getLogger(__name__)


def requirements_of(block: Any) -> dict[str, str]:
    """Package -> versions, of a block and of all blocks inside it."""
    found = dict(getattr(block, "_requirements", None) or {})
    for part in getattr(block, "sub_blocks", {}).values():
        found |= requirements_of(part)
    return found


def tell_missing(packages: Iterable[str]) -> None:
    """Say which of the packages are not installed here."""
    for package in packages:
        try:
            metadata.version(package)
        except metadata.PackageNotFoundError:
            logger.warning("%s was specified in the requirements but wasn't found in the current environment.", package)
