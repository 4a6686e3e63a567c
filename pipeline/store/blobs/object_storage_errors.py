"""What goes wrong in object storage, told in a few words. The library's own messages hold addresses, answers and dumps, and stay inside."""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w{1,60})</Code>")
_SYSTEM = re.compile(r"\(os error (\d+)\)")
_OF_THE_MACHINE = re.compile(r"169\.254\.169\.254|metadata\.google\.internal|169\.254\.170\.")  # where clouds hand out credentials
_INCOMPLETE = re.compile(
    r"Missing \w+|Account must be specified|Invalid Access Key|[Uu]nable to (?:open|decode|read) [\w ]{0,100}(?:credentials|file)"
)
_MAY_PASS = frozenset({408, 425, 429})
_DISK_MAY_RECOVER = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EMFILE, errno.ENFILE})


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why an operation failed.

    Attributes:
        reason: what is wrong and, where it is known, what to do; no secret, no text of a document.
        lasting: it stays so until somebody changes the configuration.
    """

    reason: str
    lasting: bool


def trouble(exc: Exception) -> Trouble:
    """What an error of the library, or of a folder, means."""
    text = str(exc)
    if _OF_THE_MACHINE.search(text):
        return Trouble("there are no credentials: set the variables of the storage (AWS_…, GOOGLE_…, AZURE_…)", lasting=True)
    status = _STATUS.search(text)
    if status is not None:
        return _answered(int(status[1]), _CODE.search(text))
    if "redirect" in text:
        return Trouble("the bucket is in another region: set AWS_REGION", lasting=True)
    if isinstance(exc, TimeoutError):
        return Trouble("no answer in time", lasting=False)
    number = exc.errno if isinstance(exc, OSError) and exc.errno else int(m[1]) if (m := _SYSTEM.search(text)) else None
    if number is not None and "HTTP error" not in text:
        return Trouble(os.strerror(number), lasting=number not in _DISK_MAY_RECOVER)
    if _INCOMPLETE.search(text):
        return Trouble(
            "the credentials are incomplete or unreadable: see the variables of the storage (AWS_…, GOOGLE_…, AZURE_…)", lasting=True
        )
    return Trouble("no answer" if "HTTP error" in text else type(exc).__name__, lasting=False)


def _answered(status: int, code: re.Match[str] | None) -> Trouble:
    shown = f"{status} {code[1]}" if code else str(status)
    lasting = 400 <= status < 500 and status not in _MAY_PASS
    if status in (401, 403):
        return Trouble(f"access is denied ({shown}): the credentials need the rights to read, write, list and delete there", lasting)
    if status == 404:
        return Trouble(f"the bucket or container is not there ({shown}): make it, or name another one", lasting)
    return Trouble(f"it answers {shown}", lasting)
