"""Programs that do to the package what they should not. Each runs in an interpreter of its own, which a crash would end."""

import subprocess
import sys
import textwrap

from conftest import MODELS

DIGITS = MODELS / "digits/digits.pnnx.param"
START = """
    import gc, os, signal, sys, threading, time, types, weakref
    import ixion, numpy as np
    DIGITS = sys.argv[1]
    X = np.load(os.path.join(os.path.dirname(DIGITS), "in_0.npy"))
    Y = np.load(os.path.join(os.path.dirname(DIGITS), "out_0.npy"))
    def right(found, wanted=Y):
        return np.allclose(np.asarray(found), wanted, rtol=1e-4, atol=1e-4)
    def refused(call, *kinds, words=""):
        try:
            call()
        except kinds or ixion.Error as error:
            assert str(error).strip() and words in str(error), error
        else:
            raise AssertionError("this should raise an exception")
"""


def run(code: str, *arguments: object, flags: tuple[str, ...] = (), start: str = START, seconds: int = 120, **options: object) -> str:
    """What a program prints. It fails if the program does, or takes too long."""
    program = textwrap.dedent(start) + textwrap.dedent(code)
    command = [sys.executable, "-X", "faulthandler", *flags, "-c", program, str(DIGITS), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False, **options)
    assert done.returncode == 0, f"ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    assert "panicked" not in done.stderr, done.stderr
    return done.stdout
