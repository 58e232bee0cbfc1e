"""Hashes of the embedded model's pictures, for changes that must not change a bit.

`python -m benchmarks.picture_hashes > before.json` in one state of the code, `… --against before.json` in the other.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path

import numpy as np
from PIL import Image

import lockstep

SCHEDULERS = ("DDIM", "EulerDiscrete", "DPMSolverMultistep", "UniPCMultistep", "EulerAncestralDiscrete")


def picture_hashes() -> dict[str, str]:
    """Scheduler and workflow -> SHA-256 of the pixels; 4 steps, seed 7."""
    pipe = lockstep.DiffusionPipeline.from_pretrained("lockstep/emoji")
    pipe.set_progress_bar_config(disable=True)
    side = pipe.unet.config.sample_size * pipe.vae.spatial_scale_factor
    image = Image.fromarray(np.random.default_rng(0).integers(0, 255, (side, side, 3), dtype=np.uint8))
    quarters = np.kron(np.array([[0, 255], [255, 0]], np.uint8), np.ones((side // 2, side // 2), np.uint8))
    painting = {"image": image, "mask_image": Image.fromarray(quarters)}
    workflows = {
        "text": {},
        "image": {"image": image, "strength": 0.75},
        "inpainting": {**painting, "strength": 0.75},
        "inpainting_full": painting,
    }
    found, given = {}, pipe.scheduler
    for name in SCHEDULERS:
        pipe.scheduler = getattr(lockstep, f"{name}Scheduler").from_config(given.config)
        for workflow, more in workflows.items():
            made = pipe("a red cat", seed=7, num_inference_steps=4, **more).images[0]
            found[f"{name}/{workflow}"] = hashlib.sha256(made.tobytes()).hexdigest()
    return found


def main() -> int:
    """Print the hashes, or with `--against` those that differ; 1 where some do."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", type=Path, help="hashes of another state of the code")
    options = parser.parse_args()
    found = picture_hashes()
    if options.against is None:
        print(json.dumps(found, indent=1))
        return 0
    before = json.loads(options.against.read_text(encoding="utf-8"))
    changed = [name for name in before if before[name] != found.get(name)]
    print(f"{len(before) - len(changed)} of {len(before)} equal{': not ' + ', '.join(changed) if changed else ''}")
    return int(bool(changed))


if __name__ == "__main__":
    sys.exit(main())
