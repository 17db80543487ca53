"""A disk of 32 MB, so that a test can fill it up: a tmpfs, by whoever may mount one.

Anybody may in a user namespace of their own, where the kernel allows these; what is mounted there
is gone with the process that holds it, however the test ends. Else root may. Where neither works
the test fails, and says what it needs.
"""

import contextlib
import dataclasses
import pathlib
import subprocess

import server_case

_MOUNT = ("mount", "-t", "tmpfs", "-o", "size=32m", "attndb-test")
# "sh -c" takes the first word behind it as $0, the others as $@.
_HOLD = 'folder="$0" && "$@" "$folder" && echo mounted && exec cat'
_GO_ON = 'cd "$0" && exec "$@"'


@dataclasses.dataclass
class SmallDisk:
    """`path` is the disk for commands that `inside` begins; this process has it at `here`."""

    path: pathlib.Path
    here: pathlib.Path
    inside: tuple = ()


@contextlib.contextmanager
def small_disk(path):
    """Mounts the disk at the empty folder `path`."""
    with _hold_namespace(path) as holder:
        if holder.stdout.readline() == b"mounted\n":
            # Who enters a mount namespace is in its root folder.
            inside = ("nsenter", f"--target={holder.pid}", "--user", "--mount",
                      "--preserve-credentials", "sh", "-c", _GO_ON, str(server_case.ROOT))
            yield SmallDisk(path, pathlib.Path(f"/proc/{holder.pid}/root{path}"), inside)
            return
        refusal = holder.communicate()[1].decode().strip()
    mounted = subprocess.run([*_MOUNT, path], capture_output=True, check=False)
    assert mounted.returncode == 0, (
        "a full disk takes a tmpfs to fill up: allow user namespaces "
        f"(`unshare --map-root-user --mount true`; {refusal}), or run this as root with "
        f"CAP_SYS_ADMIN ({mounted.stderr.decode().strip()})")
    try:
        yield SmallDisk(path, path)
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)


def _hold_namespace(path):
    """A process that says "mounted" and holds the mount until its input ends, or says why not."""
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", _HOLD, str(path), *_MOUNT]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)
