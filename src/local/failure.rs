//! What goes wrong, as S3 says it: the answers that several operations share.

use std::io;

use s3s::{S3Error, S3ErrorCode, S3Result, s3_error};

/// `InternalError` (500) for what the file system refused; the cause goes to the log, not to the client.
pub(super) fn internal(doing: &str, error: &io::Error) -> S3Error {
    tracing::error!(%error, "the local endpoint failed to {doing}");
    s3_error!(InternalError, "We encountered an internal error. Please try again.")
}

/// `NoSuchBucket` (404).
pub(super) fn no_such_bucket() -> S3Error {
    s3_error!(NoSuchBucket, "The specified bucket does not exist")
}

/// `NoSuchKey` (404).
pub(super) fn no_such_key() -> S3Error {
    s3_error!(NoSuchKey, "The specified key does not exist.")
}

/// `NoSuchUpload` (404).
pub(super) fn no_such_upload() -> S3Error {
    s3_error!(
        NoSuchUpload,
        "The specified upload does not exist. The upload ID may be invalid, or the upload may have been aborted or completed."
    )
}

/// `PreconditionFailed` (412).
pub(super) fn precondition_failed() -> S3Error {
    s3_error!(PreconditionFailed, "At least one of the pre-conditions you specified did not hold")
}

/// `NotImplemented` (501), for a header whose function is not there.
pub(super) fn not_implemented(header: &str) -> S3Error {
    s3_error!(NotImplemented, "A header you provided implies functionality that is not implemented: {header}")
}

/// An answer (400) whose code the library does not know.
pub(super) fn bad_request(code: &'static str, message: &'static str) -> S3Error {
    let mut refused = S3Error::with_message(S3ErrorCode::Custom(code.into()), message);
    refused.set_status_code(hyper::StatusCode::BAD_REQUEST);
    refused
}

/// The answer to a request body that ended in `error`: what a signature or length check found, else
/// `IncompleteBody` (400).
pub(super) fn broken_body(error: &(dyn std::error::Error + Send + Sync)) -> S3Error {
    // The library's stream errors are private types; their text is all that tells them apart.
    let text = error.to_string();
    if text.contains("Sha256Mismatch") {
        return bad_request(
            "XAmzContentSHA256Mismatch",
            "The provided 'x-amz-content-sha256' header does not match what was computed.",
        );
    }
    if text.contains("SignatureMismatch") {
        return s3_error!(
            SignatureDoesNotMatch,
            "The request signature we calculated does not match the signature you provided."
        );
    }
    incomplete_body()
}

/// `IncompleteBody` (400).
pub(super) fn incomplete_body() -> S3Error {
    s3_error!(IncompleteBody, "You did not provide the number of bytes specified by the Content-Length HTTP header")
}

/// Runs file work on a thread that may block; a panic in it becomes `InternalError`.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> S3Result<T> + Send + 'static) -> S3Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(answer) => answer,
        Err(error) => Err(internal("finish its file work", &io::Error::other(error))),
    }
}
