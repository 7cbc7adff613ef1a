#!/usr/bin/env bash
# Prints what it costs to build and to test this checkout, one row for each figure; README.md's first command is the first of them.
#
#   benches/build.sh                       all rows
#   benches/build.sh first lesson07 size   these; `lessons` are all of them
#   benches/build.sh --baseline REV [ROW…] the same rows for this checkout and for a revision, side by side
#
# Cold is an empty target folder with all sources downloaded. Other running programs
# make wall time longer. Needs GNU time as /usr/bin/time.
set -euo pipefail
cd "$(dirname "$0")/.."

rows=(first memory test touched lesson01 cycle lessons llvm size)
baseline=""
wanted=()
while [ $# -gt 0 ]; do
  case "$1" in
    --baseline) baseline=${2:?a revision is missing behind --baseline}; shift ;;
    -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    lesson[0-9][0-9]) wanted+=("$1") ;;
    *) case " ${rows[*]} " in *" $1 "*) wanted+=("$1") ;; *) echo "no row '$1': ${rows[*]}" >&2; exit 2 ;; esac ;;
  esac
  shift
done
if [ ${#wanted[@]} = 0 ]; then wanted=("${rows[@]}"); fi
[ -x /usr/bin/time ] || { echo "GNU time is missing: apt-get install time" >&2; exit 2; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset CARGO_TARGET_DIR

# Wall seconds, processor seconds and the most KiB of a single process go to $work/time, words to $work/log.
timed() {
  if ! /usr/bin/time -q -f '%e %U %S %M' -o "$work/time" "$@" > "$work/log" 2>&1; then
    tail -n 30 "$work/log" >&2
    echo "failed: $*" >&2
    return 1
  fi
}
seconds() { awk '{ printf "%.0f s wall, %.0f s of processors", $1, $2 + $3 }' "$work/time"; }
cold() {
  rm -rf "$work/target"
  timed env CARGO_TARGET_DIR="$work/target" "$@"
}
warm() { timed env CARGO_TARGET_DIR="$work/target" "$@"; }

first_command() {
  cold cargo run --offline --release -- run model_file/digits/digits.pnnx.param --input model_file/digits/samples/7.png
}

# Touches a layer; where it is depends on the revision.
touch_softmax() { touch "$(git ls-files 'src/layers/softmax.rs' 'src/ops/activation/softmax.rs' 'crates/ixion-ops/src/activation/softmax.rs' | head -n 1)"; }

row() {
  case "$1" in
    first) first_command && cp "$work/time" "$work/first" && seconds ;;
    memory)
      # What `first` has just measured need not be built again.
      if [ ! -e "$work/first" ]; then first_command && cp "$work/time" "$work/first" || return; fi
      awk '{ printf "%.0f MiB", $4 / 1024 }' "$work/first"
      ;;
    test) cold cargo test --offline && seconds ;;
    touched)
      warm cargo test --offline && touch_softmax && warm cargo test --offline && seconds
      ;;
    lesson01) cold cargo test --offline -p lesson01 --no-run && seconds ;;
    cycle)
      # A lesson is red at first: that its tests fail is no failure here.
      warm cargo test --offline -p lesson01 --no-run && touch lessons/01_*/src/lib.rs &&
        warm bash -c 'cargo test --offline -p lesson01 --no-run && { cargo test --offline -p lesson01 || true; }' && seconds
      ;;
    lesson*) cold cargo test --offline -p "$1" --no-run && seconds ;;
    llvm) .ci/llvm_lines "$work/llvm" 2> "$work/log" | tail -n 1 ;;
    size)
      if ! grep -q '^\[profile.dist\]' Cargo.toml; then echo "no profile dist: release"; fi
      local profile=dist
      grep -q '^\[profile.dist\]' Cargo.toml || profile=release
      warm cargo build --offline --bin ixion --profile "$profile" &&
        strip -o "$work/stripped" "$work/target/$profile/ixion" && wc -c < "$work/stripped" | awk '{ printf "%.2f MB", $1 / 1e6 }'
      ;;
  esac
}

name_of() {
  case "$1" in
    first) echo "README's first command, cold" ;;
    memory) echo "largest process of that" ;;
    test) echo "cargo test, cold" ;;
    touched) echo "cargo test after a change of a layer" ;;
    cycle) echo "lesson01, from an edit to its tests" ;;
    lesson*) echo "tests of $1 built, cold" ;;
    llvm) echo "lines of LLVM of the release's own crates" ;;
    size) echo "the command of profile dist, stripped" ;;
  esac
}

# `lessons` is a row for each of them.
measure() {
  local row lesson
  cargo fetch --quiet
  rm -f "$work/first"
  for row in "${wanted[@]}"; do
    case "$row" in
      lessons) for lesson in lessons/[0-9]*/; do lesson=${lesson#lessons/}; show "lesson${lesson%%_*}"; done ;;
      *) show "$row" ;;
    esac
  done
}
show() {
  local found
  found=$(row "$1" | paste -sd ' ') || found="could not be measured"
  printf '%-45s %s\n' "$(name_of "$1")" "$found"
}

echo "this checkout, $(git rev-parse --short HEAD):"
measure
if [ -n "$baseline" ]; then
  git clone --quiet --no-hardlinks . "$work/baseline"
  git -C "$work/baseline" checkout --quiet "$(git rev-parse "$baseline")"
  # The script of today on the checkout of then.
  mkdir -p "$work/baseline/.ci"
  cp .ci/llvm_lines "$work/baseline/.ci/"
  cd "$work/baseline"
  echo "$baseline, $(git rev-parse --short HEAD):"
  measure
fi
