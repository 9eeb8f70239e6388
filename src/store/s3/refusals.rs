//! Tests: S3's published error answers, replayed through the SDK, and the message that a user sees for each.
