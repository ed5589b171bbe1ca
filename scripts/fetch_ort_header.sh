#!/bin/sh
# Puts the official header of ONNX Runtime into build/onnxruntime-header, for
# tests/test_ort_abi.py, which compares our own declarations with it.
#
#   scripts/fetch_ort_header.sh [folder]
#
# The header comes from Debian 13's package libonnxruntime-dev. The package is not installed, and
# nothing outside the folder changes: apt gets a configuration of its own, made from the machine's
# Debian sources with the suite set to Debian 13.
set -eu

suite=trixie
package=libonnxruntime-dev
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
folder=${1:-$root/build/onnxruntime-header}

give_up() {
  echo "fetch_ort_header: $1" >&2
  echo "fetch_ort_header: instead, set MYOPS_ORT_INCLUDE to a folder that has" \
    "onnxruntime_c_api.h (API version 17 or later)" >&2
  exit 1
}

if [ -f "$folder/onnxruntime_c_api.h" ]; then
  echo "fetch_ort_header: $folder is there already"
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

echo "fetch_ort_header: getting $package of Debian $suite"
# A source that has no such suite fails and does no harm; what counts is that the package comes.
apt update >"$work/log" 2>&1 || true
if ! (cd "$work" && apt download "$package") >>"$work/log" 2>&1; then
  cat "$work/log" >&2
  give_up "apt could not get $package of Debian $suite (its words are above)"
fi
dpkg-deb -x "$work"/*.deb "$work/package"
cp -R "$work/package/usr/include/onnxruntime/." "$folder/"
[ -f "$folder/onnxruntime_c_api.h" ] || give_up "$package has no onnxruntime_c_api.h"
echo "fetch_ort_header: $folder is ready"
