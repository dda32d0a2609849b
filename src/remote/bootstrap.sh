# Finds or receives the agent's binary on a node, by its SHA-256, and becomes it.
#
# This file is sent as one line inside single quotes through whatever login shell the user has
# (sh, csh, fish ...): comments are dropped and lines are joined with blanks, so every command ends
# in a semicolon, and single quotes, backslashes and exclamation marks must not occur.
#
# Arguments: the two halves of the marker (so that an echo of this command is not taken for an
# answer), digest, size in KiB, a directory to try first or -, then the binary's own arguments.
# Answers on standard output, each line after the marker:
#   HAVE arch | NEED arch gzip|raw directory | RUN | FAIL what ...
# After NEED one line with a number of bytes is read, then exactly so many bytes.

set -f;
umask 077;
m=$1$2; id=$2; h=$3; k=$4; first=$5;
shift 5;
t="";
tidy() { if [ -n "$t" ]; then rm -f "$t"; fi; };
trap tidy EXIT;
trap "exit 1" HUP INT TERM PIPE;
say() { printf %s "$m $*"; echo; };
fail() { say FAIL "$@"; exit 1; };

for c in uname id ls mkdir chmod rm ln mv head; do
  command -v "$c" >/dev/null 2>&1 || fail tool "$c";
done;
if command -v sha256sum >/dev/null 2>&1; then sum() { sha256sum <"$1"; };
elif command -v shasum >/dev/null 2>&1; then sum() { shasum -a 256 <"$1"; };
elif command -v openssl >/dev/null 2>&1; then sum() { openssl dgst -sha256 -r <"$1"; };
else fail tool sha256sum; fi;
u=$(id -u);
a=$(uname -m);
why="";
have="";

note() { why="$why${why:+; }$d: $*"; return 1; };
right() { set -- "$1" $(sum "$1" 2>/dev/null); [ "$2" = "$h" ]; };

# A file of ours that nobody else may write, with the right digest.
ours() {
  [ -f "$1" ] || return 1;
  set -- "$1" $(LC_ALL=C ls -ln "$1" 2>/dev/null);
  case $2 in -rwx------*) ;; *) return 1;; esac;
  [ "$4" = "$u" ] && right "$1";
};

# Whether directory $1 is ours alone, takes files, lets them run, and has room.
try() {
  d=$1;
  e=$( { [ -d "$d" ] || mkdir -p "$d"; } 2>&1 ) || { note "cannot be made (${e##*: })"; return 1; };
  set -- $(LC_ALL=C ls -ldn "$d" 2>/dev/null);
  case $1 in d*) ;; *) note "not a directory"; return 1;; esac;
  [ "$3" = "$u" ] || { note "owned by user $3, not by $u"; return 1; };
  chmod 700 "$d" 2>/dev/null;
  set -- $(LC_ALL=C ls -ldn "$d" 2>/dev/null);
  case $1 in drwx------*) ;; *) note "its mode is $1, not drwx------"; return 1;; esac;
  t=$d/.try-$id;
  e=$( (true >"$t") 2>&1 ) || { t=""; note "cannot be written (${e##*: })"; return 1; };
  chmod 700 "$t";
  "$t" </dev/null >/dev/null 2>&1 || { rm -f "$t"; t=""; note "programs may not run there (noexec)"; return 1; };
  rm -f "$t";
  t="";
  f=$d/linerate-$h;
  if ours "$f"; then have=1; return 0; fi;
  set -- $(LC_ALL=C df -Pk "$d" 2>/dev/null | tail -n 1);
  if [ "$4" -lt "$k" ] 2>/dev/null; then note "only $4 KiB free, $k KiB needed"; return 1; fi;
  return 0;
};

found="";
cache=${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}};
for c in "$first" "${cache:+$cache/linerate}" "/tmp/linerate-$u" "/var/tmp/linerate-$u" "/dev/shm/linerate-$u"; do
  case $c in /*) if try "$c"; then found=1; break; fi;; esac;
done;
[ -n "$found" ] || fail nodir "$why";

if [ -n "$have" ]; then
  say HAVE "$a";
else
  z=raw;
  if command -v gzip >/dev/null 2>&1; then z=gzip; fi;
  say NEED "$a" "$z" "$d";
  read -r n || fail input;
  case $n in ""|*[a-zA-Z]*) fail input;; esac;
  t=$d/.new-$id;
  e=$( {
    LC_ALL=C;
    export LC_ALL;
    if [ "$z" = gzip ]; then head -c "$n" | gzip -dc >"$t";
    else head -c "$n" >"$t"; fi;
  } 2>&1 ) || fail write "$d" $e;
  right "$t" || fail digest "$d";
  chmod 700 "$t";
# Nodes that share a home race here: link never replaces a file that another node may be running.
  if ln "$t" "$f" 2>/dev/null; then rm -f "$t";
  elif ours "$f"; then rm -f "$t";
  else mv -f "$t" "$f" || fail write "$d" "rename failed"; fi;
  t="";
fi;
say RUN;
exec "$f" "$@";
