# Runs steps side by side. Meant to be sourced; bash 3.2 is enough.
#
#   step NAME FUNCTION [AFTER…]    a step: it begins when all steps AFTER it are done, as soon as a lane is free
#   aside NAME FUNCTION [AFTER…]   the same for one that only waits for a network: it takes no lane
#   run_steps LANES                runs them all, and ends the script
#
# AFTER is the function of another step. FUNCTION:built is a step of cargo that has built all it wants and now runs tests: the
# next cargo may have the target folder, while the tests go on. Such a step passes its output through `built`.
#
# What a step says is kept in a file and printed when it ends, so that no two of them mix.

names=() functions=() afters=() kinds=() states=() seconds=() processors=() pids=() begins=()
logs=$(mktemp -d)

step() { add lane "$@"; }
aside() { add aside "$@"; }

add() {
  kinds+=("$1") names+=("$2") functions+=("$3")
  shift 3
  afters+=("$*") states+=(waits) seconds+=(0) processors+=(-) pids+=(0) begins+=(0)
}

# Passes on what cargo says, and leaves a mark when it begins to run what it built.
built() {
  while IFS= read -r line; do
    printf '%s\n' "$line"
    case "$line" in *" Running "*) : > "$logs/$1:built" ;; esac
  done
}

run_steps() {
  trap 'stop; summary; exit 130' INT
  trap 'stop; exit 143' TERM
  trap 'rm -rf "$logs"' EXIT
  # Each step is a group of processes, which can be stopped as one.
  set -m
  SECONDS=0
  local failed=0
  while :; do
    collect
    failed=$(count failed)
    if [ "$failed" = 0 ]; then begin_ready "$1"; fi
    if [ "$(count runs)" = 0 ]; then break; fi
    sleep 0.2
  done
  if [ "$(count failed)" = 0 ] && [ "$(count waits)" = 0 ]; then
    summary
    printf '\n== all is well\n'
    exit 0
  fi
  local at
  for at in "${!names[@]}"; do
    if [ "${states[at]}" = failed ]; then
      printf '\n== FAILED: %s\n' "${names[at]}"
      cat "$logs/${functions[at]}.log"
    fi
  done
  summary
  for at in "${!names[@]}"; do
    case "${states[at]}" in
      failed) printf 'FAILED: %s\n' "${names[at]}" ;;
      waits) if [ "$(count failed)" = 0 ]; then printf 'waits for a step that does not exist: %s (%s)\n' "${names[at]}" "${afters[at]}"; fi ;;
    esac
  done
  exit 1
}

# How many steps are in a state; `lanes` counts those that run and take one.
count() {
  local at sum=0
  for at in "${!names[@]}"; do
    if [ "${states[at]}" = "$1" ] || { [ "$1" = lanes ] && [ "${states[at]}${kinds[at]}" = runslane ]; }; then sum=$((sum + 1)); fi
  done
  echo "$sum"
}

# Takes in the steps that ended.
collect() {
  local at code
  for at in "${!names[@]}"; do
    if [ "${states[at]}" != runs ]; then continue; fi
    # A step whose code never comes was killed.
    if [ ! -s "$logs/${functions[at]}.code" ] && kill -0 "${pids[at]}" 2>/dev/null; then continue; fi
    wait "${pids[at]}" 2>/dev/null || true
    code=$(cat "$logs/${functions[at]}.code" 2>/dev/null || echo killed)
    seconds[at]=$((SECONDS - begins[at])) processors[at]=$(processor_seconds "$logs/${functions[at]}.times")
    if [ "$code" = 0 ]; then states[at]=passed; else states[at]=failed; fi
    printf '\n== %s: %s after %s s\n' "${names[at]}" "${states[at]}" "${seconds[at]}"
    cat "$logs/${functions[at]}.log"
  done
}

begin_ready() {
  local at
  for at in "${!names[@]}"; do
    if [ "${states[at]}" != waits ] || ! is_ready "${afters[at]}"; then continue; fi
    if [ "${kinds[at]}" = lane ] && [ "$(count lanes)" -ge "$1" ]; then continue; fi
    printf '.. %s\n' "${names[at]}"
    begin "${functions[at]}" > "$logs/${functions[at]}.log" 2>&1 < /dev/null &
    pids[at]=$! begins[at]=$SECONDS states[at]=runs
  done
}

# The inner shell ends at the first command that fails; the outer one lives to tell.
begin() {
  (
    set -euo pipefail
    "$1"
  )
  local code=$?
  times > "$logs/$1.times"
  echo "$code" > "$logs/$1.code"
}

# The last line of `times` is what all children took, as `1m2.345s 0m6.789s`.
processor_seconds() {
  tail -n 1 "$1" 2> /dev/null | awk -F '[ms ]+' '{ printf "%.0f", ($1 + $3) * 60 + $2 + $4; seen = 1 } END { if (!seen) printf "-" }'
}

is_ready() {
  local after at
  for after in $1; do
    if [ -e "$logs/$after" ]; then continue; fi
    for at in "${!names[@]}"; do
      if [ "${functions[at]}" = "${after%:built}" ] && [ "${states[at]}" = passed ]; then continue 2; fi
    done
    return 1
  done
}

stop() {
  local at
  trap '' INT TERM
  for at in "${!names[@]}"; do
    if [ "${states[at]}" = runs ]; then
      kill -TERM -- "-${pids[at]}" 2>/dev/null || true
      seconds[at]=$((SECONDS - begins[at])) states[at]=stopped
    fi
  done
}

summary() {
  local at
  printf '\n%7s  %7s  %-8s %s\n' seconds 'cpu s' result step
  for at in "${!names[@]}"; do
    case "${states[at]}" in
      waits) printf '%7s  %7s  %-8s %s\n' - - 'not run' "${names[at]}" ;;
      *) printf '%7s  %7s  %-8s %s\n' "${seconds[at]}" "${processors[at]}" "${states[at]}" "${names[at]}" ;;
    esac
  done
  printf '%7s  %7s  %-8s %s\n' "$SECONDS" '' '' 'all of it'
}
