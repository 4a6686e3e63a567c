"""How libpq itself reads a connection string: the library of the PostgreSQL in the wheel, asked by
ctypes.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache

from livedex.pipeline.store.embedded.binaries import binary_path


class _Option(ctypes.Structure):
    _fields_ = (
        *(
            (name, ctypes.c_char_p)
            for name in ("keyword", "envvar", "compiled", "val", "label", "dispchar")
        ),
        ("dispsize", ctypes.c_int),
    )


@cache
def _library() -> ctypes.CDLL:
    folder = binary_path("postgres").parents[1] / "lib"
    library = ctypes.CDLL(
        str(folder / ("libpq.5.dylib" if sys.platform == "darwin" else "libpq.so.5"))
    )
    library.PQconninfoParse.restype = ctypes.POINTER(_Option)
    library.PQconninfoParse.argtypes = [ctypes.c_char_p, ctypes.POINTER(ctypes.c_char_p)]
    library.PQconndefaults.restype = ctypes.POINTER(_Option)
    return library


def _options(found: ctypes._Pointer[_Option]) -> dict[str, tuple[str | None, str | None]]:
    options, n = {}, 0
    while found[n].keyword:
        option = found[n]
        options[option.keyword.decode()] = (
            None if option.val is None else option.val.decode(),
            option.envvar and option.envvar.decode(),
        )
        n += 1
    return options


def parse_with_libpq(text: str) -> dict[str, str] | None:
    """What a connection string says, or None where libpq does not take it."""
    error = ctypes.c_char_p()
    found = _library().PQconninfoParse(text.encode(), ctypes.byref(error))
    return {name: value for name, (value, _) in _options(found).items() if value} if found else None


def libpq_environment_variables() -> dict[str, str]:
    """Every environment variable that libpq reads, with the parameter that it sets."""
    return {
        variable: name
        for name, (_, variable) in _options(_library().PQconndefaults()).items()
        if variable
    }
