#!/bin/sh
# Puts the official ONNX Runtime for C and C++ into build/onnxruntime:
#
#   include/  its headers: tests/test_ort_abi.py compares our own declarations with them
#   lib/      its library and all that this needs, down to the C library
#   run       starts a program with these libraries, also on a system that is older than they are
#
#   scripts/fetch_onnxruntime.sh [folder]
#
# They come from Debian 13's package libonnxruntime-dev (with what it depends on: 20 MB). Nothing is
# installed, and nothing outside the folder changes: apt gets a configuration of its own, made from
# the machine's Debian sources with the suite set to Debian 13.
set -eu

suite=trixie
package=libonnxruntime-dev
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
folder=${1:-$root/build/onnxruntime}

give_up() {
  echo "fetch_onnxruntime: $1" >&2
  echo "fetch_onnxruntime: instead, set MYOPS_ONNXRUNTIME to a folder of your own with include/" \
    "and lib/, as the archives of the ONNX Runtime project have them (1.17 or later)" >&2
  exit 1
}

if [ -x "$folder/run" ]; then
  echo "fetch_onnxruntime: $folder is there already"
  exit 0
fi
for tool in apt-get apt-config dpkg-deb awk; do
  command -v "$tool" >/dev/null || give_up "this needs a Debian machine: no $tool here"
done

mkdir -p "$folder"
folder=$(CDPATH='' cd -- "$folder" && pwd)
work=$(mktemp -d "$folder/work.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
mkdir -p "$work/sources" "$work/state/lists/partial" "$work/cache/archives/partial"

# Where the machine gets its Debian from, as "address" or "[options] address" lines. Only its main
# suite counts; other repositories and -updates, -security and the like are left out.
codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-stable}")
eval "$(apt-config shell list Dir::Etc::sourcelist/f parts Dir::Etc::sourceparts/d)"
cat "$list" "$parts"/*.list 2>/dev/null | awk -v codename="$codename" -v suite="$suite" '
  function is_main(name) { return name == codename || name ~ /^(old)?stable$|^testing$|^sid$/ }
  $1 == "deb" {
    line = $1
    for (i = 2; i <= NF; i++) {
      if (is_main($i)) { print line, suite, "main"; next }
      line = line " " $i
    }
  }' >"$work/sources/machine.list" || true
for file in "$parts"/*.sources; do
  [ -f "$file" ] || continue
  awk -v codename="$codename" -v suite="$suite" '
    function is_main(name) { return name == codename || name ~ /^(old)?stable$|^testing$|^sid$/ }
    function flush(  i) {
      if (wanted && !disabled) {
        for (i = 1; i <= count; i++) print lines[i]
        print "Types: deb\nSuites: " suite "\nComponents: main\n"
      }
      count = wanted = disabled = 0
    }
    /^[ \t]*$/ { flush(); next }
    /^#/ { next }
    tolower($1) == "suites:" { for (i = 2; i <= NF; i++) if (is_main($i)) wanted = 1; next }
    tolower($1) == "enabled:" { disabled = tolower($2) == "no" }
    tolower($1) == "types:" || tolower($1) == "components:" { next }
    { lines[++count] = $0 }
    END { flush() }' "$file" >"$work/sources/$(basename "$file")"
done
[ -n "$(cat "$work"/sources/*)" ] || give_up "apt has no source for Debian ($codename) here"

apt() {
  apt-get -q -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$work/sources" \
    -o Dir::State="$work/state" -o Dir::State::status=/dev/null -o Dir::Cache="$work/cache" \
    -o Acquire::Languages=none -o Acquire::Retries=3 -o APT::Sandbox::User="$(id -un)" "$@"
}

echo "fetch_onnxruntime: getting $package of Debian $suite"
# A source that has no such suite fails and does no harm; what counts is that the packages come.
apt update >"$work/log" 2>&1 || true
# Nothing counts as installed (State::status above), so this is all that the package depends on.
if ! apt install --assume-yes --download-only --no-install-recommends "$package" >>"$work/log" 2>&1
then
  cat "$work/log" >&2
  give_up "apt could not get $package of Debian $suite (its words are above)"
fi
for archive in "$work"/cache/archives/*.deb; do dpkg-deb -x "$archive" "$work/root"; done
rm -rf "$folder/include" "$folder/lib"
cp -R "$work/root/usr/include/onnxruntime" "$folder/include"
[ -f "$folder/include/onnxruntime_c_api.h" ] || give_up "$package has no onnxruntime_c_api.h"
mkdir "$folder/lib"
cp -P "$work"/root/usr/lib/*-linux-gnu/*.so* "$folder/lib/"
cat >"$work/run" <<'END'
#!/bin/sh
lib=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)/lib
exec "$lib"/ld-linux*.so.* --library-path "$lib" "$@"
END
chmod +x "$work/run"
mv "$work/run" "$folder/run" # last: it says that the folder is complete
echo "fetch_onnxruntime: $folder is ready"
