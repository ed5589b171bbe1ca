"""Packages of other releases of Debian, or for other processors, unpacked into a folder.

apt-get keeps what it knows of them in that folder too: nothing is installed, and the machine's own
lists of packages stay as they are. Needs a machine with Debian.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


class UnavailableError(RuntimeError):
    """This machine cannot get the packages; the text says why."""


def fetch(
    packages: Sequence[str], folder: Path, suite: str, architecture: str, *, follow: bool = True
) -> Path:
    """Unpacks packages.

    Args:
        packages: Their names.
        folder: Where to; begun anew.
        suite: The release, such as "trixie".
        architecture: As Debian names it, such as "arm64".
        follow: Also unpack what the packages depend on.

    Returns:
        `folder`.

    Raises:
        UnavailableError: There is no apt-get here, or it does not find the packages.
    """
    if not shutil.which("apt-get"):
        raise UnavailableError("this machine has no apt-get")
    shutil.rmtree(folder, ignore_errors=True)
    state = folder.with_name(f"{folder.name}.apt")
    archives = state / "cache" / "archives"
    for path in (state / "lists" / "partial", archives / "partial", folder):
        path.mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    (state / "sources.list").write_text(
        f"deb [signed-by={KEYRING} arch={architecture}] {_mirror()} {suite} main\n"
    )
    settings = {
        "APT::Architecture": architecture, "APT::Architectures": architecture,
        "APT::Install-Recommends": "false", "APT::Sandbox::User": "root",
        "Dir::State": state, "Dir::State::lists": state / "lists",
        "Dir::State::status": state / "status", "Dir::Cache": state / "cache",
        "Dir::Etc::SourceList": state / "sources.list", "Dir::Etc::SourceParts": "/dev/null",
        "Debug::NoLocking": "true",
    }  # fmt: skip
    apt = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in settings.items())]
    _run([*apt, "update"], state)
    if follow:
        _run([*apt, "--yes", "--download-only", "install", *packages], state)
    else:
        _run([*apt, "download", *packages], archives)
    for archive in sorted(archives.glob("*.deb")):
        _run(["dpkg-deb", "--extract", str(archive.resolve()), str(folder.resolve())], state)
    shutil.rmtree(state)
    # From trixie on, packages leave /lib to these links, which no package that is fetched here has.
    for name in ("bin", "lib", "lib64"):
        if (folder / "usr" / name).is_dir() and not (folder / name).exists():
            (folder / name).symlink_to(f"usr/{name}")
    return folder


def _mirror() -> str:
    """Where this machine gets its packages of Debian from."""
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(ORIGIN) $(LABEL)"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    for line in done.stdout.splitlines():
        uri, _, words = line.partition(" ")
        if words == "Debian Debian":
            return uri
    raise UnavailableError("apt-get knows no mirror of Debian; call `apt-get update` first")


def _run(command: Sequence[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UnavailableError(f"{command[0]}: {done.stderr.strip()[-500:]}")
