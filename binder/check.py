"""Does the folder `binder` make an environment in which every notebook runs? Without docker: `make binder`.

Takes the last commit into a fresh folder, makes a virtual environment with the Python of runtime.txt, installs
requirements.txt, runs postBuild, starts the lab once through start, and executes every notebook. Fails when one of them
does, when the lab does not open at the first tutorial, or when server and notebook together take more memory than
Binder gives.
"""
from __future__ import annotations

import argparse
import io
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MOST_MB = 2048
START = "/lab/tree/notebooks/00_quickstart.ipynb"
#: Runs inside of the fresh environment.
EXECUTE = """\
import sys
import nbclient, nbformat
notebook = nbformat.read(sys.argv[1], as_version=4)
nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": sys.argv[2]}}).execute()
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", type=Path, help="make everything in this folder, and leave it there")
    args = parser.parse_args()
    version = (ROOT / "binder" / "runtime.txt").read_text(encoding="utf-8").strip().removeprefix("python-")
    if version != f"{sys.version_info.major}.{sys.version_info.minor}":
        print(f"runtime.txt wants Python {version}, and this is {sys.version.split()[0]}: "
              f"make PYTHON=python{version} binder")
        return 1
    folder = args.keep or Path(tempfile.mkdtemp(prefix="ptqlab-binder-"))
    try:
        return check(folder)
    finally:
        if args.keep is None:
            shutil.rmtree(folder, ignore_errors=True)


def check(folder: Path) -> int:
    """Everything in `folder`; 0 when all is well."""
    copy, environment = folder / "repository", folder / "environment"
    copy_commit(copy)
    print("A fresh environment ...", flush=True)
    venv.create(environment, with_pip=True, clear=True)
    own = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "JUPYTER", "VIRTUAL_ENV"))}
    own |= {"PATH": f"{environment / 'bin'}{os.pathsep}{own['PATH']}", "HOME": str(folder / "home")}
    own |= {"JUPYTER_PREFER_ENV_PATH": "1"}
    (folder / "home").mkdir(parents=True, exist_ok=True)
    pip = [str(environment / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
           "--no-input", "-r", "binder/requirements.txt"]
    # pip may keep what it fetched where the user keeps it; nothing else of the user's home is seen
    subprocess.run(pip, cwd=copy, env=own | {"HOME": os.environ.get("HOME", "/")}, check=True)
    subprocess.run(["bash", "binder/postBuild"], cwd=copy, env=own, check=True)
    opened, server_mb = lab(copy, own)
    print(f"the lab opens at {opened}, and its server takes {server_mb:.0f} MB")
    bad = [] if opened == START else [f"the lab opens at {opened}, not at {START}"]
    for notebook in sorted((copy / "notebooks").glob("*.ipynb")):
        started = time.monotonic()
        code, peak = execute(notebook, folder, own)
        total = peak + server_mb
        print(f"{notebook.stem:32} {time.monotonic() - started:6.1f} s  {peak:6.0f} MB  {total:6.0f} MB with the server"
              f"{'' if code == 0 else '  FAILED'}", flush=True)
        bad += [f"{notebook.name} failed"] if code else []
        bad += [f"{notebook.name} takes {total:.0f} MB of {MOST_MB}"] if total > MOST_MB else []
    print("\n".join(bad) or "All notebooks run in the environment of Binder.")
    return 1 if bad else 0


def copy_commit(target: Path) -> None:
    """The last commit, which is what Binder builds."""
    target.mkdir(parents=True, exist_ok=True)
    packed = subprocess.run(["git", "-C", str(ROOT), "archive", "HEAD"], capture_output=True, check=True)
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(target, filter="data")


def lab(copy: Path, environment: dict[str, str]) -> tuple[str, float]:
    """(address that the lab opens at, MB of its server)."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = ["bash", "binder/start", "jupyter", "lab", "--no-browser", "--allow-root", f"--port={port}",
               "--ServerApp.port_retries=0", "--IdentityProvider.token="]
    server = subprocess.Popen(command, cwd=copy, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(300):
            try:
                with urllib.request.urlopen(address, timeout=2) as answer:
                    return answer.url.removeprefix(address).partition("?")[0], memory_mb(server.pid)
            except OSError:
                if server.poll() is not None:
                    return "nothing: the server ended", 0.0
                time.sleep(0.2)
        return "nothing: the server does not answer", 0.0
    finally:
        server.terminate()
        server.wait(30)


def execute(notebook: Path, folder: Path, environment: dict[str, str]) -> tuple[int, float]:
    """(exit code, peak of the memory of notebook and kernel together in MB)."""
    place = folder / "run" / notebook.stem
    place.mkdir(parents=True, exist_ok=True)
    with open(place / "log.txt", "w+", encoding="utf-8") as log:
        process = subprocess.Popen(["python", "-c", EXECUTE, str(notebook), str(place)], env=environment, stdout=log,
                                   stderr=log)
        peak = 0.0
        while process.poll() is None:
            peak = max(peak, memory_mb(process.pid))
            time.sleep(0.1)
        if process.returncode:
            log.seek(0)
            print(log.read()[-4000:])
    return process.returncode, peak


def memory_mb(pid: int) -> float:
    """Resident memory of a process and all its descendants."""
    parents, resident = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                # behind the name, which may hold anything: state, parent, ...; resident pages are the 22nd of them
                fields = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            except OSError:  # it has ended meanwhile
                continue
            parents[int(entry.name)], resident[int(entry.name)] = int(fields[1]), int(fields[21])
    family, grown = {pid}, True
    while grown:
        more = {child for child, parent in parents.items() if parent in family} - family
        family, grown = family | more, bool(more)
    return sum(resident.get(member, 0) for member in family) * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    sys.exit(main())
