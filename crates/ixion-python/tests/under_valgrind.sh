#!/bin/sh
# Runs the fuzz tests under Valgrind, which fails at every invalid read, write and release of memory, also where Python goes on.
#
#     crates/ixion-python/tests/under_valgrind.sh [-k NAME]        # the other arguments are those of pytest
#
# PYTHON is the interpreter with the package and what requirements.txt lists; IXION_FUZZ is the number of calls, 10000 by default,
# which take about an hour. What was found is in valgrind.*.txt of the current folder, in one file for each process.
set -eu

command -v valgrind > /dev/null || { echo "valgrind is missing: apt-get install valgrind" >&2; exit 2; }
tests=$(dirname "$0")
# Python's own allocator hides the ends of objects from Valgrind. Values that are not initialised are not reported: those of NumPy
# and of an optimised Python are false alarms. SIMD beyond AVX2, which Valgrind lacks, is not used under it.
PYTHONMALLOC=malloc IXION_FUZZ="${IXION_FUZZ:-10000}" exec valgrind --quiet --undef-value-errors=no --error-exitcode=9 \
  --suppressions="$tests/valgrind.supp" --log-file=valgrind.%p.txt \
  "${PYTHON:-python3}" -m pytest -q -p no:cacheprovider -p no:faulthandler "$tests/test_fuzz.py" "$@"
