"""Attempts of a command to leave the place where it runs, by the guarantee that forbids them.

Each is Python code that calls `escaped(...)` if it gets what it must not. These names are filled in: `{outside}` (a
folder beside the workspace, with the secret in `secret.txt` and a listening `socket`), `{root}` (the workspace),
`{pid}` (a process with the secret in its environment), `{port}`, `{udp}` and `{abstract}` (sockets that nothing may
reach), `{shm}` (shared memory), `{name}` (a name for new files).
"""

from __future__ import annotations

from dataclasses import dataclass

from agentscope_rx.tools.backends import Guarantee
from tests.tools.fence import SECRET

PRELUDE = f"""
import ctypes, errno, fcntl, os, signal, socket, stat, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
def escaped(*what):
    print("ESCAPED", *what)
def read(path):
    with open(path, "rb") as file:
        if {SECRET!r}.encode() in file.read(1 << 20):
            escaped(path)
def write(path):
    with open(path, "a") as file:
        file.write("x")
    escaped(path)
def each(act, *values):
    for value in values:
        try:
            act(value)
        except OSError:
            pass
def call(name, *arguments):
    if getattr(libc, name)(*arguments) >= 0:
        escaped(name)
"""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt. `works` is True if it succeeds, and does no harm, where the guarantee is not given."""

    name: str
    guarantee: Guarantee
    code: str
    works: bool = False

    def __str__(self) -> str:
        return self.name


_READS = [
    ("absolute", "read('{outside}/secret.txt')"),
    ("parent", "read('../outside/secret.txt')"),
    ("link", "os.symlink('{outside}', '{name}'); read('{name}/secret.txt')"),
    ("link to a file", "os.symlink('../secret.txt', '{name}'); read('{name}')"),
    ("hard link", "os.link('{outside}/secret.txt', '{name}'); read('{name}')"),
    ("root of its process", "read('/proc/self/root{outside}/secret.txt')"),
    ("root of its parent", "read(f'/proc/{{os.getppid()}}/root{outside}/secret.txt')"),
    ("its folder's parent", "read('/proc/self/cwd/../secret.txt')"),
    ("parent by descriptor", "read(os.open('../secret.txt', os.O_RDONLY, dir_fd=os.open('.', os.O_RDONLY)))"),
    ("socket", "s = socket.socket(socket.AF_UNIX); s.connect('{outside}/socket'); escaped()"),
]
_READS_IN_A_SANDBOX = [
    ("inherited descriptors", "each(lambda n: escaped(os.listdir(f'/proc/self/fd/{{n}}/..')), *range(200))"),
    ("above inherited descriptors", "each(lambda n: escaped(os.open('..', 0, dir_fd=n)), *range(200))"),
    ("root of process 1", "read('/proc/1/root{outside}/secret.txt')"),
    ("descriptors of process 1", "each(lambda n: escaped(os.listdir(f'/proc/1/fd/{{n}}/..')), *range(200))"),
    ("old root of the sandbox", "each(lambda p: escaped(os.listdir(p)), '/oldroot', '/newroot', '/.oldroot')"),
    (
        "folders of users",
        "each(lambda p: read(p), *['{outside}/../' + n for n in ('secret.txt', 'outside/secret.txt')])",
    ),
    ("no users", "each(lambda p: escaped(os.stat(p)), '/root/.ssh', '/root/.bashrc', '/var/log', '/run/dbus', '/mnt')"),
    (
        "shadow",
        "each(lambda p: escaped(open(p).read()), '/etc/shadow', '/etc/sudoers', '/etc/ssl/private', '/etc/ssh')",
    ),
    ("users of the system", "[escaped(x) for x in open('/etc/passwd') if not x.startswith(('user:', 'nobody:'))]"),
    ("kernel", "each(lambda p: escaped(open(p, 'rb').read(8)), '/proc/kcore', '/dev/mem', '/dev/kmem', '/proc/kmsg')"),
    ("disks", "each(lambda p: escaped(open(p, 'rb')), '/dev/vda', '/dev/sda', '/dev/nvme0n1', '/dev/dm-0')"),
    ("sysfs", "escaped(os.listdir('/sys/class'))"),
    (
        "file handles",
        "h = (ctypes.c_uint * 16)(8, 1, 2, 0)\n"
        "call('open_by_handle_at', os.open('.', os.O_RDONLY), ctypes.byref(h), os.O_RDONLY)",
    ),
]
_WRITES = [
    ("absolute", "write('{outside}/{name}')"),
    ("parent", "write('../{name}')"),
    ("append", "write('{outside}/secret.txt')"),
    ("link", "os.symlink('{outside}', '{name}'); write('{name}/{name}')"),
    ("root of its process", "write('/proc/self/root{outside}/{name}')"),
    ("folder", "os.mkdir('../{name}'); escaped()"),
    ("rename", "os.rename('README.md', '{outside}/{name}'); escaped()"),
    ("times", "os.utime('{outside}/secret.txt', (0, 0)); escaped()"),
    ("mode", "os.chmod('{outside}/secret.txt', 0o666); escaped()"),
    ("remove", "os.unlink('{outside}/more/deeper.txt'); escaped()"),
]
_WRITES_IN_A_SANDBOX = [
    ("system", "each(write, *[f'{{p}}/{name}' for p in ('/etc', '/usr', '/usr/bin', '/lib', '/root', '/', '/dev')])"),
    ("mode of the system", "each(lambda p: escaped(os.chmod(p, 0o755)), '/usr', '/usr/bin/env', '/etc/hosts')"),
    ("private folders", "each(write, '/tmp/{name}', '/dev/shm/{name}', '/home/sandbox/{name}', '/var/tmp/{name}')"),
    ("the workspace itself", "each(lambda p: escaped(os.rename('{root}', p)), '{root}x', '/tmp/{name}')"),
    ("the Python that runs it", "write(os.path.join(sys.prefix, '{name}'))"),
    ("cgroups", "each(lambda p: escaped(os.mkdir(p)), '/sys/fs/cgroup/{name}', '/sys/fs/cgroup/memory/{name}')"),
]
_DENIED = [
    ("key", "read('.env')"),
    ("key below", "read('docs/.env')"),
    ("folder", "read('.ssh/id_rsa')"),
    ("by another case of the path", "read('docs/../docs/./.env')"),
    ("moved", "os.rename('.env', '{name}'); read('{name}')"),
    ("moved with its folder", "os.rename('docs', '{name}'); read('{name}/.env')"),
    ("linked", "os.link('.env', '{name}'); read('{name}')"),
    ("by a link", "os.symlink('.env', '{name}'); read('{name}')"),
    ("hook", "write('.git/hooks/post-commit')"),
    ("settings", "write('.git/config')"),
    ("moved git", "os.rename('.git', '{name}'); write('{name}/config')"),
    ("replaced", "os.unlink('.env'); open('.env', 'w').write('x'); escaped()"),
    ("permissions", "os.makedirs('.agentscope', exist_ok=True); write('.agentscope/permissions.json')"),
]
_DENIED_IN_A_SANDBOX = [
    ("mode", "each(lambda p: (os.chmod(p, 0o777), read(p + '/id_rsa')), '.ssh')"),
    ("uncovered", "[call('umount2', p, n) for p in (b'.env', b'.ssh', b'.git', b'docs/.env') for n in (0, 2)]"),
    ("remounted", "call('mount', b'none', b'{root}/.git', None, 4096 | 32, None)"),
    ("written by remounting", "libc.mount(b'none', b'{root}/.git', None, 4096 | 32, None); write('.git/config')"),
]
_PROCESSES = [
    ("environments", "each(read, *[f'/proc/{{n}}/environ' for n in os.listdir('/proc') if n.isdigit()])"),
    ("one environment", "read('/proc/{pid}/environ')"),
    ("signal", "os.kill({pid}, 0); escaped()"),
    ("priority", "os.getpriority(os.PRIO_PROCESS, {pid}); escaped()"),
    ("handle", "escaped(os.pidfd_open({pid}))"),
]
_PROCESSES_IN_A_SANDBOX = [
    ("kill", "os.kill({pid}, 9); escaped()"),
    ("trace", "call('ptrace', 16, {pid}, None, None)"),
    ("limits", "import resource; resource.prlimit({pid}, resource.RLIMIT_NOFILE); escaped()"),
    ("folder", "escaped(os.listdir('/proc/{pid}/cwd'))"),
    ("memory", "escaped(open('/proc/{pid}/mem', 'rb'))"),
    ("shared memory", "call('shmat', {shm}, None, 0)"),
    ("namespaces", "escaped(os.open('/proc/{pid}/ns/mnt', os.O_RDONLY))"),
]
_NETWORK = [
    ("loopback", "socket.create_connection(('127.0.0.1', {port}), 3); escaped()"),
    ("name of the machine", "socket.create_connection(('localhost', {port}), 3); escaped()"),
    ("any address", "socket.create_connection(('0.0.0.0', {port}), 3); escaped()"),
    ("abstract socket", "s = socket.socket(socket.AF_UNIX); s.connect(chr(0) + '{abstract}'); escaped()"),
]
_NETWORK_IN_A_SANDBOX = [
    ("datagram", "socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {udp}))"),
    ("name", "escaped(socket.getaddrinfo('example.com', 80))"),
    ("public address", "socket.create_connection(('192.0.2.1', 80), 1); escaped()"),
    ("packets", "escaped(socket.socket(socket.AF_PACKET, socket.SOCK_RAW))"),
    ("raw socket", "escaped(socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))"),
    ("interfaces", "[escaped(n) for _, n in socket.if_nameindex() if n != 'lo']"),
]
_PRIVILEGES = [
    ("mount", "os.mkdir('{name}'); call('mount', b'none', b'{name}', b'tmpfs', 0, None)"),
    ("bind mount", "os.mkdir('{name}'); call('mount', b'/usr', b'{name}', None, 4096, None)"),
    ("unmount", "call('umount2', b'/tmp', 2)"),
    ("writable system", "call('mount', b'none', b'/usr', None, 4096 | 32, None)"),
    ("writable root", "call('mount', b'none', b'/', None, 4096 | 32, None)"),
    ("writable /proc", "call('mount', b'none', b'/proc', None, 4096 | 32, None)"),
    ("other /proc", "os.mkdir('{name}'); call('mount', b'proc', b'{name}', b'proc', 0, None)"),
    ("user namespace", "call('unshare', 0x10000000)"),
    ("mount namespace", "call('unshare', 0x00020000)"),
    ("namespaces together", "call('unshare', 0x10000000 | 0x00020000 | 0x20000000)"),
    ("chroot", "os.chroot('docs'); escaped()"),
    ("pivot_root", "call('syscall', 155, b'docs', b'docs')"),
    ("superuser", "os.setuid(0); escaped()"),
    ("groups", "os.setgroups([0]); escaped()"),
    ("disk", "os.mknod('{name}', stat.S_IFBLK | 0o666, os.makedev(8, 0)); escaped()"),
    ("device", "os.mknod('{name}', stat.S_IFCHR | 0o666, os.makedev(1, 1)); escaped()"),
    ("name of the machine", "call('sethostname', b'x', 1)"),
    ("clock", "import time; time.clock_settime(time.CLOCK_REALTIME, time.time()); escaped()"),
    ("core dump program", "escaped(os.open('/proc/sys/kernel/core_pattern', os.O_WRONLY))"),
    ("module program", "escaped(os.open('/proc/sys/kernel/modprobe', os.O_WRONLY))"),
    (
        "settings of the kernel",
        "for folder, _, files in os.walk('/proc/sys'):\n"
        "    each(lambda f: escaped(f, os.open(os.path.join(folder, f), os.O_WRONLY)), *files)",
    ),
    ("keys to the kernel", "each(lambda p: escaped(os.open(p, os.O_WRONLY)), '/proc/sysrq-trigger', '/proc/mtrr')"),
    ("maps of users", "open('/proc/self/uid_map', 'w').write('0 0 1'); escaped()"),
    ("raised limits", "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1)); escaped()"),
    (
        "capabilities",
        "[escaped(x) for x in open('/proc/self/status') if x.startswith('Cap') and int(x.split()[1], 16)]",
    ),
    (
        "setuid programs",
        "[escaped(x) for x in open('/proc/self/status') if x.startswith('NoNewPrivs') and '1' not in x]",
    ),
    ("terminal", "fcntl.ioctl(os.open('/dev/tty', os.O_RDWR), 0x5412, b'x'); escaped()"),
    ("input of its terminal", "[fcntl.ioctl(n, 0x5412, b'x') for n in range(3)]; escaped()"),
]
_ENVIRONMENT = [("environment", "if any({secret!r} in each for each in os.environ.values()): escaped()")]

_BY_GUARANTEE = (
    (Guarantee.READS, _READS, _READS_IN_A_SANDBOX),
    (Guarantee.WRITES, _WRITES, _WRITES_IN_A_SANDBOX),
    (Guarantee.DENIED_PATHS, _DENIED, _DENIED_IN_A_SANDBOX),
    (Guarantee.HOST_PROCESSES, _PROCESSES, _PROCESSES_IN_A_SANDBOX),
    (Guarantee.NETWORK, _NETWORK, _NETWORK_IN_A_SANDBOX),
    (Guarantee.PRIVILEGES, [], _PRIVILEGES),
    (Guarantee.ENVIRONMENT, [], _ENVIRONMENT),
)

ATTEMPTS = [
    Attempt(f"{guarantee}: {name}", guarantee, code, works)
    for guarantee, working, others in _BY_GUARANTEE
    for works, group in ((True, working), (False, others))
    for name, code in group
]
