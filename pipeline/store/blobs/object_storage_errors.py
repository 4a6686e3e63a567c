"""Short descriptions of obstore's errors.

obstore's own messages contain addresses, responses and dumps, and are never shown.
"""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w{1,60})</Code>")
_SYSTEM = re.compile(r"\(os error (\d+)\)")
# metadata services of clouds, which provide credentials
_METADATA_SERVICE = re.compile(r"169\.254\.169\.254|metadata\.google\.internal|169\.254\.170\.")
_INCOMPLETE_CREDENTIALS = re.compile(
    r"Missing \w+|Account must be specified|Invalid Access Key|[Uu]nable to "
    r"(?:open|decode|read) [\w ]{0,100}(?:credentials|file)"
)
_TRANSIENT_STATUSES = frozenset({408, 425, 429})
_TRANSIENT_ERRNOS = frozenset(
    {
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EIO,
        errno.ESTALE,
        errno.ETIMEDOUT,
        errno.EMFILE,
        errno.ENFILE,
    }
)


@dataclass(frozen=True, slots=True)
class StorageFailure:
    """The reason why an operation failed.

    Attributes:
        reason: what is wrong and, if known, what to do; contains no secret and no document text.
        permanent: whether only a changed configuration can help.
    """

    reason: str
    permanent: bool


def classify_error(exc: Exception) -> StorageFailure:
    """Return the reason for an error of obstore or of the operating system.

    Args:
        exc: the error.
    """
    text = str(exc)
    if _METADATA_SERVICE.search(text):
        return StorageFailure(
            "no credentials found: set the variables of the storage (AWS_…, GOOGLE_…, AZURE_…)",
            permanent=True,
        )
    status = _STATUS.search(text)
    if status is not None:
        return _classify_status(int(status[1]), _CODE.search(text))
    if "redirect" in text:
        return StorageFailure("the bucket is in another region: set AWS_REGION", permanent=True)
    if isinstance(exc, TimeoutError):
        return StorageFailure("no answer in time", permanent=False)
    number = (
        exc.errno
        if isinstance(exc, OSError) and exc.errno
        else int(m[1])
        if (m := _SYSTEM.search(text))
        else None
    )
    if number is not None and "HTTP error" not in text:
        return StorageFailure(os.strerror(number), permanent=number not in _TRANSIENT_ERRNOS)
    if _INCOMPLETE_CREDENTIALS.search(text):
        return StorageFailure(
            "the credentials are incomplete or unreadable: check the variables of the storage "
            "(AWS_…, GOOGLE_…, AZURE_…)",
            permanent=True,
        )
    return StorageFailure(
        "no answer" if "HTTP error" in text else type(exc).__name__, permanent=False
    )


def _classify_status(status: int, code: re.Match[str] | None) -> StorageFailure:
    shown = f"{status} {code[1]}" if code else str(status)
    lasting = 400 <= status < 500 and status not in _TRANSIENT_STATUSES
    if status in (401, 403):
        return StorageFailure(
            f"access is denied ({shown}): the credentials need permission to read, write, list "
            "and delete there",
            lasting,
        )
    if status == 404:
        return StorageFailure(
            f"bucket or container not found ({shown}): create it, or choose another one", lasting
        )
    return StorageFailure(f"the storage responded {shown}", lasting)
