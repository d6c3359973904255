"""Lets schemathesis send the one body that is no JSON."""

import schemathesis


@schemathesis.serializer("application/zip")
def archive(_: object, value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode(errors="replace")
