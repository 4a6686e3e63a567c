"""The library's errors in a few words: what to do, whether it lasts, and nothing of what else
stands in them.
"""

from __future__ import annotations

import pytest
from obstore.exceptions import GenericError, PermissionDeniedError

from livedex.pipeline.store.blobs.object_storage_errors import classify_error

DUMP = "\n\nDebug source:\nGeneric {\n    uri: https://host/bucket?sig=hidden,\n}"


def s3(told: str) -> GenericError:
    return GenericError(
        f"Generic S3 error: Error performing PUT https://host/bucket/k in 1ms - {told}{DUMP}"
    )


@pytest.mark.parametrize(
    ("error", "told", "lasting"),
    [
        (
            s3("Server returned non-2xx status code: 503 Service Unavailable: "),
            "the storage responded 503",
            False,
        ),
        (
            s3("Server returned non-2xx status code: 429 Too Many Requests: "),
            "the storage responded 429",
            False,
        ),
        (
            s3(
                "Server returned non-2xx status code: 400 Bad Request: "
                "<Code>InvalidBucketName</Code>"
            ),
            "the storage responded 400 InvalidBucketName",
            True,
        ),
        (
            s3(
                "Server returned non-2xx status code: 403 Forbidden: "
                "<Code>RequestTimeTooSkewed</Code>"
            ),
            "denied (403 RequestTimeTooSkewed)",
            True,
        ),
        (
            PermissionDeniedError("... status code: 403 Forbidden: {'error': 'hidden'}"),
            "access is denied (403)",
            True,
        ),
        (
            FileNotFoundError("Object at location k not found: ... status code: 404 Not Found: "),
            "not found (404): create it",
            True,
        ),
        (
            s3(
                "Received redirect without LOCATION, this normally indicates an incorrectly "
                "configured region"
            ),
            "set AWS_REGION",
            True,
        ),
        (s3("HTTP error: error sending request (os error 111)"), "no answer", False),
        (TimeoutError(), "no answer in time", False),
        (
            GenericError(
                "Generic S3 error: Error performing PUT "
                "http://169.254.169.254/latest/api/token in 1s - HTTP error"
            ),
            "no credentials",
            True,
        ),
        (
            GenericError(
                "Generic GCS error: ... GET http://metadata.google.internal/computeMetadata "
                "- status code: 403"
            ),
            "no credentials",
            True,
        ),
        (
            GenericError("Generic MicrosoftAzure error: Account must be specified"),
            "credentials are incomplete",
            True,
        ),
        (
            GenericError("Generic S3 error: Missing SecretAccessKey"),
            "credentials are incomplete",
            True,
        ),
        (
            GenericError(
                "Generic GCS error: Unable to open service account file from /hidden.json: "
                "No such file"
            ),
            "credentials are incomplete",
            True,
        ),
        (
            GenericError(
                "Generic LocalFileSystem error: Unable to create file: Permission denied (os "
                "error 13)"
            ),
            "Permission denied",
            True,
        ),
        (
            GenericError(
                "Generic LocalFileSystem error: Unable to copy data to file: (os error 28)"
            ),
            "No space left on device",
            False,
        ),
        (OSError(5, "Input/output error", "/hidden"), "Input/output error", False),
        (GenericError("hidden"), "GenericError", False),
    ],
)
def test_an_error_is_told_in_a_few_words(error: Exception, told: str, lasting: bool) -> None:
    found = classify_error(error)
    assert told in found.reason
    assert found.permanent is lasting
    assert "hidden" not in found.reason
    assert "\n" not in found.reason
    assert len(found.reason) < 120
