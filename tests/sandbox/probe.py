"""Tries what a sandbox must refuse. Prints a line for each try: its name, and OPEN or the error.

Arguments: the PID of a process outside, the folder of the test, a TCP port and the name of an abstract Unix socket
that a process outside listens to, and the number of a segment of System V shared memory. Does no harm to the machine if nothing refuses it; never run it as root without a
sandbox all the same.
"""

import ctypes
import errno
import fcntl
import os
import platform
import resource
import socket
import struct
import subprocess
import sys

VICTIM, BASE, PORT, ABSTRACT = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
MEMORY = int(sys.argv[5])
HOME, TREE = os.path.join(BASE, "home"), os.path.join(BASE, "project")
LIBC = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == "x86_64"
# the numbers of x86-64, then those of all newer architectures
NUMBERS = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "prlimit64": (302, 261), "mount": (165, 40),
    "umount2": (166, 39), "pivot_root": (155, 41), "unshare": (272, 97), "setns": (308, 268),
    "perf_event_open": (298, 241), "bpf": (321, 280), "userfaultfd": (323, 282), "keyctl": (250, 219),
    "add_key": (248, 217), "syslog": (103, 116), "fanotify_init": (300, 262), "open_by_handle_at": (304, 265),
    "pidfd_open": (434, 434), "pidfd_getfd": (438, 438), "open_tree": (428, 428), "clone3": (435, 435),
    "io_uring_setup": (425, 425), "kcmp": (312, 272),
}


def system_call(name, *arguments):
    ctypes.set_errno(0)
    number = NUMBERS[name][0 if X86 else 1] if isinstance(name, str) else name
    result = LIBC.syscall(number, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
    return result


def read(path):
    with open(path, "rb") as file:
        return need(len(file.read(1)))


def make_and_remove(path):
    write(path)
    os.unlink(path)


def write(path, mode="ab"):
    with open(path, mode) as file:
        file.write(b"x")


def need(found):
    if not found:
        raise OSError(errno.ENODATA, "")


def connect(family, kind, address, send=False):
    with socket.socket(family, kind) as peer:
        peer.settimeout(2)
        peer.connect(address)
        if send:
            peer.send(b"x")


def send_unconnected():
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("192.0.2.1", 53))


def in_child(work):
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except OSError as error:
            os._exit(error.errno or 99)
        except BaseException:
            os._exit(98)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        raise OSError(errno.EOWNERDEAD, "")
    if os.WEXITSTATUS(status):
        raise OSError(os.WEXITSTATUS(status), "")


def own_server():
    server = socket.create_server(("127.0.0.1", 0))
    connect(socket.AF_INET, socket.SOCK_STREAM, server.getsockname())


def own_unix_server():
    server = socket.socket(socket.AF_UNIX)
    server.bind(os.path.join(TREE, "own.sock"))
    server.listen()
    connect(socket.AF_UNIX, socket.SOCK_STREAM, server.getsockname())


def link_and_write():
    os.symlink(os.path.join(HOME, "through-link"), os.path.join(TREE, "link"))
    write(os.path.join(TREE, "link"))


def rename_git():
    os.rename(os.path.join(TREE, ".git"), os.path.join(TREE, "git"))
    os.rename(os.path.join(TREE, "git"), os.path.join(TREE, ".git"))


def set_uid_program():
    done = subprocess.run([os.path.join(BASE, "id")], capture_output=True)
    need(b"uid=0(" in done.stdout)


def limit(kind, value):
    try:
        resource.setrlimit(kind, value)
    except ValueError:
        raise OSError(errno.EPERM, "")


def make_cgroup():
    os.mkdir("/sys/fs/cgroup/leftfold-probe")
    os.rmdir("/sys/fs/cgroup/leftfold-probe")


def core_limit():
    need(resource.getrlimit(resource.RLIMIT_CORE)[1] != 0)
    limit(resource.RLIMIT_CORE, (1, 1))


def clone3_user():
    arguments = struct.pack("<QQQQQQQQ", 0x10000000, 0, 0, 0, 17, 0, 0, 0)
    if system_call("clone3", ctypes.create_string_buffer(arguments), 64) == 0:
        os._exit(0)


def attach(memory):
    LIBC.shmat.restype = ctypes.c_ssize_t
    ctypes.set_errno(0)
    if LIBC.shmat(memory, None, 0) == -1:
        raise OSError(ctypes.get_errno(), "")


def perf():
    attributes = struct.pack("<II", 1, 128) + b"\0" * 120
    system_call("perf_event_open", ctypes.create_string_buffer(attributes), 0, -1, -1, 0)


def x32():
    if not X86:
        raise OSError(errno.ENOSYS, "")
    system_call(0x40000000 | 101, 0, 0, 0, 0)


def opened(path, mode):
    open(path, mode).close()


def open_disk():
    disks = [name for name in os.listdir("/dev") if name in ("vda", "sda", "nvme0n1")]
    opened(of("/dev", (disks + ["vda"])[0]), "rb")


def of(*parts):
    return os.path.join(*parts)


def node(name):
    return f"/proc/{VICTIM}/{name}"


# a filter refuses the system call before the kernel looks for the path, and no machine is harmed if there is none
NOWHERE = b"/no/such/leftfold-probe"
ZERO = ctypes.c_void_p(0)
PROBES = [
    # files
    ("ssh-key", lambda: read(of(HOME, ".ssh/id"))),
    ("ssh-list", lambda: need(os.listdir(of(HOME, ".ssh")))),
    ("aws-key", lambda: read(of(HOME, ".aws/credentials"))),
    ("gnupg-list", lambda: need(os.listdir(of(HOME, ".gnupg")))),
    ("store-read", lambda: read(of(BASE, "store/log"))),
    ("store-list", lambda: need(os.listdir(of(BASE, "store")))),
    ("dotenv", lambda: read(of(TREE, ".env"))),
    ("dotenv-write", lambda: write(of(TREE, ".env"))),
    ("dotenv-rename", lambda: os.rename(of(TREE, ".env"), of(TREE, ".env2"))),
    ("shadow", lambda: read("/etc/shadow")),
    ("write-home", lambda: write(of(HOME, "written"))),
    ("write-etc", lambda: make_and_remove("/etc/leftfold-probe")),
    ("write-bashrc", lambda: write(of(HOME, ".bashrc"))),
    ("write-temp", lambda: make_and_remove("/tmp/leftfold-probe")),
    ("write-tree", lambda: write(of(TREE, "written"))),
    ("git-hook", lambda: write(of(TREE, ".git/hooks/pre-commit"))),
    ("git-config", lambda: write(of(TREE, ".git/config"))),
    ("git-rename", rename_git),
    ("agents", lambda: write(of(TREE, ".leftfold/agents/x"))),
    ("agents-rename", lambda: os.rename(of(TREE, ".leftfold/agents"), of(TREE, ".leftfold/old"))),
    ("link-out", lambda: os.link(of(HOME, ".bashrc"), of(TREE, "hard"))),
    ("symlink-out", link_and_write),
    ("chmod-out", lambda: os.chmod(of(HOME, ".bashrc"), 0o644)),
    ("utime-out", lambda: os.utime(of(HOME, ".bashrc"))),
    ("truncate-out", lambda: os.truncate(of(HOME, ".bashrc"), 4)),
    ("unlink-out", lambda: os.unlink(of(HOME, ".aws/credentials"))),
    # other processes
    ("environ-node", lambda: read(node("environ"))),
    ("mem-node", lambda: opened(node("mem"), "rb")),
    ("maps-node", lambda: read(node("maps"))),
    ("root-node", lambda: need(os.listdir(node("root/")))),
    ("cwd-node", lambda: os.readlink(node("cwd"))),
    ("fd-node", lambda: need(os.listdir(node("fd")))),
    ("cmdline-node", lambda: read(node("cmdline"))),
    ("environ-init", lambda: read("/proc/1/environ")),
    ("fd-init", lambda: os.readlink("/proc/1/fd/0")),
    ("kill-node", lambda: os.kill(VICTIM, 0)),
    ("pidfd-open", lambda: system_call("pidfd_open", VICTIM, 0)),
    ("pidfd-getfd", lambda: system_call("pidfd_getfd", system_call("pidfd_open", VICTIM, 0), 0, 0)),
    ("ptrace-attach", lambda: system_call("ptrace", 16, VICTIM, 0, 0)),
    ("ptrace-traceme", lambda: in_child(lambda: system_call("ptrace", 0, 0, 0, 0))),
    ("vm-readv", lambda: system_call("process_vm_readv", VICTIM, ZERO, 0, ZERO, 0, 0)),
    ("kcmp", lambda: system_call("kcmp", VICTIM, VICTIM, 1, 0, 0)),
    ("prlimit-node", lambda: system_call("prlimit64", VICTIM, 4, (ctypes.c_ulonglong * 2)(0, 0), None)),
    ("renice-node", lambda: os.setpriority(os.PRIO_PROCESS, VICTIM, 5)),
    ("affinity-node", lambda: os.sched_setaffinity(VICTIM, [0])),
    ("oom-node", lambda: write(node("oom_score_adj"), "wb")),
    ("memory", lambda: attach(MEMORY)),
    ("oom-own", lambda: open("/proc/self/oom_score_adj", "w").write("0")),
    # networks
    ("tcp", lambda: connect(socket.AF_INET, socket.SOCK_STREAM, ("192.0.2.1", 80))),
    ("tcp6", lambda: connect(socket.AF_INET6, socket.SOCK_STREAM, ("2001:db8::1", 80))),
    ("udp", lambda: connect(socket.AF_INET, socket.SOCK_DGRAM, ("192.0.2.1", 53), True)),
    ("udp-unconnected", send_unconnected),
    ("dns", lambda: socket.getaddrinfo("leftfold.example", 80)),
    ("host-loopback", lambda: connect(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", PORT))),
    ("own-loopback", own_server),
    ("unix-path", lambda: connect(socket.AF_UNIX, socket.SOCK_STREAM, of(BASE, "socket"))),
    ("unix-run", lambda: connect(socket.AF_UNIX, socket.SOCK_STREAM, of(BASE, "run/socket"))),
    ("unix-abstract", lambda: connect(socket.AF_UNIX, socket.SOCK_STREAM, "\0" + ABSTRACT)),
    ("unix-temp", lambda: connect(socket.AF_UNIX, socket.SOCK_STREAM, of("/tmp", ABSTRACT))),
    ("unix-other", lambda: connect(socket.AF_UNIX, socket.SOCK_STREAM, of(BASE, "other"))),
    ("own-unix", own_unix_server),
    ("socketpair", socket.socketpair),
    ("vsock", lambda: socket.socket(40, 1)),
    ("packet", lambda: socket.socket(17, 3)),
    ("raw", lambda: socket.socket(2, 3, 1)),
    ("alg", lambda: socket.socket(38, 5)),
    ("netlink-netfilter", lambda: socket.socket(16, 3, 12)),
    ("bluetooth", lambda: socket.socket(31, 1)),
    # mounts, namespaces and rights; a mount that nothing refuses fails with ENOENT
    ("mount", lambda: system_call("mount", b"t", NOWHERE, b"tmpfs", 0, None)),
    ("umount", lambda: system_call("umount2", NOWHERE, 2)),
    ("remount", lambda: system_call("mount", None, NOWHERE, None, 0x1020, None)),
    ("open-tree", lambda: system_call("open_tree", -100, NOWHERE, 1)),
    ("pivot-root", lambda: system_call("pivot_root", NOWHERE, NOWHERE)),
    ("unshare-user", lambda: in_child(lambda: system_call("unshare", 0x10000000))),
    ("clone3-user", clone3_user),
    ("setns", lambda: in_child(lambda: system_call("setns", os.open(node("ns/mnt"), 0), 0))),
    ("chroot", lambda: in_child(lambda: os.chroot(TREE))),
    ("setuid-0", lambda: in_child(lambda: os.setuid(0))),
    ("set-uid-program", set_uid_program),
    ("mknod-disk", lambda: os.mknod(of(TREE, "disk"), 0o60600, os.makedev(254, 0))),
    ("open-disk", open_disk),
    ("dev-tty", lambda: opened("/dev/tty", "rb")),
    ("tiocsti", lambda: fcntl.ioctl(os.openpty()[1], 0x5412, b"x")),
    ("cgroup", make_cgroup),
    ("core-limit", core_limit),
    # the kernel
    ("io-uring", lambda: system_call("io_uring_setup", 8, ctypes.create_string_buffer(120))),
    ("bpf", lambda: system_call("bpf", 0, ctypes.create_string_buffer(128), 72)),
    ("perf", perf),
    ("userfaultfd", lambda: system_call("userfaultfd", 0)),
    ("keyctl", lambda: system_call("keyctl", 0, -3, 1)),
    ("add-key", lambda: system_call("add_key", b"user", b"p", b"x", 1, -3)),
    ("core-pattern", lambda: opened("/proc/sys/kernel/core_pattern", "r+")),
    ("dmesg", lambda: system_call("syslog", 3, ctypes.create_string_buffer(100), 100)),
    ("fanotify", lambda: system_call("fanotify_init", 0, 0)),
    ("handle-open", lambda: system_call("open_by_handle_at", -100, ctypes.create_string_buffer(64), 0)),
    ("x32", x32),
]
for name, work in PROBES:
    try:
        work()
        print(name, "OPEN")
    except socket.gaierror:
        print(name, "EAI")
    except OSError as error:
        print(name, errno.errorcode.get(error.errno, type(error).__name__))
    except Exception as error:
        print(name, type(error).__name__)
