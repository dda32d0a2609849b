#!/bin/sh
# Installs what building linerate and running its lab need on Debian or Ubuntu, as root or with sudo.
# Asks for nothing that is already there.
set -eu

say() { echo "setup: $*" >&2; }

# tool or file : package
needs='
cc:build-essential
make:make
pkg-config:pkg-config
cmake:cmake
python3:python3
/usr/include/infiniband/verbs.h:libibverbs-dev
/usr/include/openssl/ssl.h:libssl-dev
qemu-system-x86_64:qemu-system-x86
/usr/sbin/sshd:openssh-server
ssh:openssh-client
ssh-keygen:openssh-client
rdma:iproute2
ib_write_bw:perftest
iperf3:iperf3
depmod:kmod
xz:xz-utils
zstd:zstd
cpio:cpio
lspci:pciutils
chromium:chromium
xmllint:libxml2-utils
promtool:prometheus
'

has() {
    case $1 in
        /*) [ -e "$1" ] ;;
        *) command -v "$1" >/dev/null 2>&1 || [ -x "/usr/sbin/$1" ] || [ -x "/sbin/$1" ] ;;
    esac
}

missing=
for need in $needs; do
    has "${need%%:*}" || missing="$missing ${need#*:}"
done
# libclang-cpp, which other packages bring, is another library.
ldconfig -p 2>/dev/null | grep -Eq 'libclang(-[0-9.]+)?\.so' ||
    ls /usr/lib/llvm-*/lib/libclang.so* >/dev/null 2>&1 ||
    missing="$missing libclang-dev"
ls /usr/lib/*/libibverbs/librxe-rdmav*.so >/dev/null 2>&1 || missing="$missing ibverbs-providers"
has cargo || [ -x "$HOME/.cargo/bin/cargo" ] || {
    if apt-cache show rustup >/dev/null 2>&1; then
        missing="$missing rustup"
    else
        say 'cargo is missing: install Rust 1.95 or newer from https://rustup.rs, then run this again'
        exit 1
    fi
}
[ -n "$missing" ] || exit 0

command -v apt-get >/dev/null || { say "missing:$missing; apt-get is not here to install them"; exit 1; }
if [ "$(id -u)" = 0 ]; then root=; else root=sudo; fi
say "installing$missing"

# Only programs of these packages are run: they must not start a server on this machine.
policy=/usr/sbin/policy-rc.d
made=
cleanup() { [ -z "$made" ] || $root rm -f "$policy"; }
trap cleanup EXIT
case $missing in
    *openssh-server* | *prometheus*)
        if [ ! -e $policy ]; then
            made=yes
            printf '#!/bin/sh\nexit 101\n' | $root tee $policy >/dev/null
            $root chmod 755 $policy
        fi
        ;;
esac
$root apt-get update -qq
# shellcheck disable=SC2086 # a list of words
$root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
case $missing in
    *openssh-server*)
        if command -v systemctl >/dev/null 2>&1; then
            $root systemctl disable -q ssh.service ssh.socket 2>/dev/null || true
        fi
        ;;
esac
case $missing in
    *prometheus*)
        if command -v systemctl >/dev/null 2>&1; then
            $root systemctl disable -q prometheus.service 2>/dev/null || true
        fi
        ;;
esac
case $missing in
    *rustup*) rustup default stable ;;
esac
