"""The one error tree. Every failure that a caller can meet is one of these.

    VoxloomError
    ├── RequestError                    the caller's fault; retrying unchanged cannot help
    │   ├── InvalidRequestError         a value that is not allowed (names the field)
    │   │   └── ContextLengthError      messages that are more than a language model reads
    │   ├── NotFoundError               a name or id that does not exist
    │   ├── UnknownRequestError         an update or interaction for an id not running
    │   ├── DuplicateRequestError       an id that is already running
    │   ├── PayloadTooLargeError        a body, text or message over its limit
    │   ├── AuthenticationError         no key, or a wrong one
    │   ├── MethodNotAllowedError       a path that exists, asked with another method
    │   └── UnsupportedMediaTypeError   a body that is not in the expected media type
    ├── OverloadedError                 no admission ticket left; retry later
    ├── UnavailableError                the engine is starting, draining or lost its replicas
    ├── DeadlineExceededError           the request (or its CFG group) ran out of time
    ├── RequestAbortedError             the caller aborted the request
    └── StageFailedError                a stage failed at this request: our fault
    ConfigError                         a pipeline, option or key file that cannot be used

``code`` is a stable machine-readable word, ``param`` the field at fault. Status codes are the
server's business; nothing anywhere decides by matching message texts.
"""


class VoxloomError(Exception):
    """Base of all errors that a caller can meet."""

    code: str = "internal_error"

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        if code is not None:
            self.code = code


class RequestError(VoxloomError):
    """The caller's fault; retrying unchanged cannot help."""

    code = "invalid_request"


class InvalidRequestError(RequestError, ValueError):
    """A value that is not allowed."""

    code = "invalid_value"


class ContextLengthError(InvalidRequestError):
    """Messages that are more than a language model reads. The code is OpenAI's."""

    code = "context_length_exceeded"


class NotFoundError(RequestError):
    """A name or id that does not exist."""

    code = "not_found"


class UnknownRequestError(RequestError):
    """An update, interaction or abort for a request id that is not running."""

    code = "unknown_request"


class DuplicateRequestError(RequestError):
    """A request id that is already running."""

    code = "duplicate_request"


class PayloadTooLargeError(RequestError):
    """A body, text or message over its limit."""

    code = "payload_too_large"


class RequestTimeoutError(RequestError):
    """A body that stopped coming."""

    code = "request_timeout"


class AuthenticationError(RequestError):
    """No key, or a wrong one."""

    code = "invalid_api_key"


class MethodNotAllowedError(RequestError):
    """A path that exists, asked with another method."""

    code = "method_not_allowed"


class UnsupportedMediaTypeError(RequestError):
    """A body that is not in the expected media type."""

    code = "unsupported_media_type"


class OverloadedError(VoxloomError):
    """No admission ticket left. ``retry_after_s`` estimates when one will be."""

    code = "overloaded"

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class UnavailableError(VoxloomError):
    """The engine is starting, draining, or has lost the replicas it needs."""

    code = "unavailable"


class DeadlineExceededError(VoxloomError):
    """The request, or its CFG group, ran out of time."""

    code = "deadline_exceeded"


class RequestAbortedError(VoxloomError):
    """The caller aborted the request."""

    code = "aborted"


class StageFailedError(VoxloomError):
    """A stage failed at this request."""

    code = "stage_failed"


class ConfigError(Exception):
    """A pipeline, option or key file that cannot be used."""


_BY_CODE: dict[str, type[VoxloomError]] = {
    cls.code: cls
    for cls in (
        InvalidRequestError,
        ContextLengthError,
        UnavailableError,
        DeadlineExceededError,
        RequestAbortedError,
        StageFailedError,
        UnknownRequestError,
    )
}


def error_from_code(code: str, message: str, param: str | None = None) -> VoxloomError:
    """The error that a message from the orchestrator stands for; an unknown code is our fault."""
    return _BY_CODE.get(code, StageFailedError)(message, param=param)
