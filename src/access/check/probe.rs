//! The customer's side of the test: a probe is uploaded, read, listed and deleted as a run would, and what was refused is traced to its cause.

use bytes::Bytes;

use super::{Lines, Outcome, Probed, Step, Variation};
use crate::domain::error::{Error, Kind, Result};
use crate::domain::settings::{Credentials, Destination, Encryption};
use crate::store::checksum::Crc64Nvme;
use crate::store::ports::{Body as _, Completed, Condition, Upload};
use crate::store::s3::{Refused, Why};

/// What the probe holds, and tells whoever finds it.
const TEXT: &str = "Written by `dayport check` to see whether a run could write here. It may be deleted.\n";
const CONTENT_TYPE: &str = "text/plain";
/// An upload that does not exist: whoever may abort uploads is told so, whoever may not is refused. Nothing is changed either way.
const NO_UPLOAD: &str = "dayport-check-of-an-upload-that-does-not-exist";
/// How often what the test made is tried to be taken away again.
const MOST_TRIES: u32 = 3;

/// Goes through all steps on the customer's bucket; what is left behind.
pub(super) async fn probe<C: Probed>(
    destination: &Destination,
    our_role: Option<&str>,
    customer: &C,
    lines: &mut Lines,
) -> Vec<String> {
    let key = destination.layout.probe_key(&destination.s3_prefix);
    let mut probe = Probe {
        destination,
        our_role,
        customer,
        key: key.as_str(),
        lines,
        open: Vec::new(),
        object: Object::None,
        left: Vec::new(),
    };
    probe.not_needed();
    if probe.reaches_the_bucket().await {
        probe.uploads().await;
        probe.puts_a_manifest().await;
        probe.reads().await;
        probe.lists_uploads().await;
        probe.ownership().await;
    }
    probe.cleans_up().await;
    probe.concludes();
    probe.left
}

/// Whether the probe's object is in the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Object {
    None,
    /// An answer was lost.
    Perhaps,
    There,
}

struct Probe<'a, C> {
    destination: &'a Destination,
    our_role: Option<&'a str>,
    customer: &'a C,
    key: &'a str,
    lines: &'a mut Lines,
    /// The ids of uploads that may still be open.
    open: Vec<String>,
    object: Object,
    left: Vec<String>,
}

fn why(error: &Error) -> Why {
    Refused::of(error).map_or(Why::Other, |refused| refused.why)
}

/// The same failure with what the test found out, after what S3's answer alone could tell.
fn found(error: &Error, what: &str) -> Error {
    Error::new(error.kind(), format!("{error}; {what}"))
}

impl<C: Probed> Probe<'_, C> {
    /// The steps that no run of this destination takes.
    fn not_needed(&mut self) {
        let Destination { verify, sweep, manifest, expected_bucket_owner, .. } = self.destination;
        let mut note = |step, message: &str| self.lines.note(step, Outcome::NotNeeded, message);
        if !verify {
            note(Step::Read, "`verify` is off: nothing is ever read");
            note(Step::List, "`verify` is off: nothing is ever listed");
        }
        if !sweep {
            note(Step::Sweep, "`sweep` is off: unfinished uploads are never listed");
        }
        if !manifest {
            note(Step::Manifest, "`manifest` is off");
        }
        if expected_bucket_owner.is_none() {
            note(Step::Owner, "`expected_bucket_owner` is not set");
        }
    }

    /// The first request, which changes nothing: region and credentials show, and whether aborting is allowed. False when no other
    /// could do better.
    async fn reaches_the_bucket(&mut self) -> bool {
        let answer = self.customer.abort(self.key, NO_UPLOAD).await;
        let Err(error) = answer else {
            self.lines.note(Step::Abort, Outcome::Ok, "uploads can be given up");
            return true;
        };
        match why(&error) {
            Why::Region => self.lines.refused(Step::Region, &error),
            Why::Credentials => self.lines.refused(Step::Credentials, &error),
            _ if error.kind() == Kind::Retryable => self.lines.refused(Step::Abort, &error),
            _ => {
                self.lines.refused(Step::Abort, &error);
                return !self.belongs_to_another(&error).await;
            }
        }
        false
    }

    /// Whether the bucket refuses because another account owns it: the same request is allowed without that header.
    async fn belongs_to_another(&mut self, refused: &Error) -> bool {
        let Some(owner) = self.destination.expected_bucket_owner.as_deref().filter(|_| why(refused) == Why::Permission) else {
            return false;
        };
        let Some(anybody) = self.customer.varied(Variation::AnyOwner) else {
            return false;
        };
        if anybody.abort(self.key, NO_UPLOAD).await.is_err() {
            return false;
        }
        let (name, bucket) = (&self.destination.name, &self.destination.s3_bucket);
        let message = format!(
            "account `{owner}` does not own `{bucket}`: the same request is allowed without `expected_bucket_owner`, ask the customer for the account's 12 digits or correct the bucket of `{name}`"
        );
        self.lines.note(Step::Owner, Outcome::Refused(Kind::Customer), message);
        self.lines.note(Step::Abort, Outcome::NotTried, "the bucket is another account's");
        true
    }

    /// One upload from its beginning to its end, and one that is given up.
    async fn uploads(&mut self) {
        let id = match self.customer.create(self.key, CONTENT_TYPE).await {
            Ok(id) => id,
            Err(error) => return self.create_was_refused(error).await,
        };
        self.lines.note(Step::Create, Outcome::Ok, "uploads can be begun");
        self.open.push(id.clone());
        let body = Bytes::from(TEXT);
        let part = match self.customer.part(self.key, &id, 1, body.clone()).await {
            Ok(part) => part,
            Err(error) => return self.part_was_refused(&error),
        };
        self.lines.note(Step::Part, Outcome::Ok, "parts are taken");
        let checksum = part.checksum.as_ref().map(|_| Crc64Nvme::of(&body).base64());
        let upload = Upload { key: self.key.to_owned(), id: id.clone(), parts: vec![part], size: body.len() as u64, checksum };
        match self.customer.complete(&upload).await {
            Ok(Completed::Done) => {
                self.object = Object::There;
                self.open.retain(|open| *open != id);
                self.lines.note(Step::Complete, Outcome::Ok, "uploads can be completed");
            }
            Ok(Completed::NoSuchUpload) => {
                self.object = Object::Perhaps;
                let error = Error::retryable(format!("the upload of `{}` is gone before it was completed, call again", self.key));
                self.lines.refused(Step::Complete, &error);
            }
            Err(error) => {
                self.object = Object::Perhaps;
                self.note_refusal(Step::Complete, &error);
            }
        }
        if self.lines.is_ok(Step::Abort) {
            self.gives_one_up().await;
        }
    }

    async fn gives_one_up(&mut self) {
        match self.customer.create(self.key, CONTENT_TYPE).await {
            Ok(id) => {
                self.open.push(id.clone());
                match self.customer.abort(self.key, &id).await {
                    Ok(()) => self.open.retain(|open| *open != id),
                    Err(error) => self.lines.refused(Step::Abort, &error),
                }
            }
            Err(error) => {
                self.may_have_begun(&error);
                self.lines.refused(Step::Abort, &error);
            }
        }
    }

    /// A create whose answer was lost may have begun an upload that nobody knows the id of.
    fn may_have_begun(&mut self, error: &Error) {
        if error.kind() == Kind::Retryable {
            self.left.push(format!(
                "perhaps an unfinished upload of `{}`, whose answer was lost: the bucket's lifecycle rule ends it",
                self.key
            ));
        }
    }

    /// A refusal of one step, or of the key behind it.
    fn note_refusal(&mut self, step: Step, error: &Error) {
        match why(error) {
            Why::Key => {
                self.lines.refused(Step::Encryption, error);
                self.lines.note(step, Outcome::NotTried, "the KMS key stands in the way");
            }
            Why::Credentials => {
                self.lines.refused(Step::Credentials, error);
                self.lines.note(step, Outcome::NotTried, "the credentials stand in the way");
            }
            _ => self.lines.refused(step, error),
        }
    }

    fn part_was_refused(&mut self, error: &Error) {
        if why(error) == Why::Permission {
            let what = "beginning the upload was allowed, so a Deny statement asks for a header that parts never carry, or the KMS key does not allow `kms:Decrypt`";
            return self.lines.refused(Step::Part, &found(error, what));
        }
        self.note_refusal(Step::Part, error);
    }

    /// Asks again without the headers that need rights of their own.
    async fn create_was_refused(&mut self, error: Error) {
        self.may_have_begun(&error);
        if why(&error) != Why::Permission {
            return self.note_refusal(Step::Create, &error);
        }
        let has_acl = self.destination.acl.is_some();
        let has_encryption = self.destination.encryption.is_some();
        if has_acl && self.may_create(Variation::NoAcl).await {
            let what = "without `acl` it is allowed, so `s3:PutObjectAcl` is missing, or a Deny statement meets that ACL";
            return self.lines.refused(Step::Create, &found(&error, what));
        }
        if has_encryption && self.may_create(Variation::NoEncryption).await {
            let what = "without `encryption` it is allowed, so the key's policy does not let us use it, or a Deny statement wants another";
            self.lines.note(Step::Create, Outcome::NotTried, "the encryption that is asked for stands in the way");
            return self.lines.refused(Step::Encryption, &found(&error, what));
        }
        if has_acl && has_encryption && self.may_create(Variation::NoAclNoEncryption).await {
            let what = "without `acl` and `encryption` it is allowed, so both are refused";
            return self.lines.refused(Step::Create, &found(&error, what));
        }
        if self.lines.is_ok(Step::Abort) {
            let what = "aborting uploads is allowed, so the policy knows us, and `s3:PutObject` alone is missing or denied";
            return self.lines.refused(Step::Create, &found(&error, what));
        }
        let what = match self.destination.credentials {
            Credentials::Own => {
                "nothing that was tried is allowed, so the bucket policy is most likely not applied, or names another principal or prefix, or our own role's policy does not have the bucket (the stack's parameter `DestinationObjects`)"
            }
            _ => "nothing that was tried is allowed, so what signs most likely has no policy for this bucket and prefix",
        };
        self.lines.refused(Step::Create, &found(&error, what));
    }

    /// Whether an upload may be begun under other headers; it is given up at once.
    async fn may_create(&mut self, variation: Variation) -> bool {
        let Some(varied) = self.customer.varied(variation) else {
            return false;
        };
        match varied.create(self.key, CONTENT_TYPE).await {
            Ok(id) => {
                self.open.push(id);
                true
            }
            Err(error) => {
                self.may_have_begun(&error);
                false
            }
        }
    }

    async fn puts_a_manifest(&mut self) {
        if self.lines.is_known(Step::Manifest) || !self.lines.is_ok(Step::Complete) {
            return;
        }
        match self.customer.put(self.key, Bytes::from(TEXT), CONTENT_TYPE, &Condition::None).await {
            Ok(_) => self.lines.note(Step::Manifest, Outcome::Ok, "small objects can be written in one request"),
            Err(error) => self.note_refusal(Step::Manifest, &error),
        }
    }

    async fn reads(&mut self) {
        if !self.destination.verify || self.object != Object::There {
            return;
        }
        let listed = match self.customer.list_page(self.key, None).await {
            Ok((objects, _)) => objects.into_iter().find(|object| object.key == self.key),
            Err(error) => return self.lines.refused(Step::List, &error),
        };
        let Some(object) = listed else {
            let error = Error::retryable(format!("`{}` was written and is not listed, call again", self.key));
            return self.lines.refused(Step::List, &error);
        };
        self.lines.note(Step::List, Outcome::Ok, "the prefix can be listed");
        match self.read(&object.etag).await {
            Ok(body) if body == TEXT.as_bytes() => self.lines.note(Step::Read, Outcome::Ok, "what was written is what is read"),
            Ok(_) => {
                let error = Error::retryable(format!(
                    "`{}` does not hold what was written, call again and check the endpoint if it lasts",
                    self.key
                ));
                self.lines.refused(Step::Read, &error);
            }
            Err(error) => self.lines.refused(Step::Read, &error),
        }
    }

    async fn lists_uploads(&mut self) {
        if !self.destination.sweep || !self.lines.is_ok(Step::Create) {
            return;
        }
        match self.customer.list_uploads_page(self.key, None).await {
            Ok(_) => self.lines.note(Step::Sweep, Outcome::Ok, "unfinished uploads can be listed"),
            Err(error) => self.lines.refused(Step::Sweep, &error),
        }
    }

    async fn read(&self, etag: &str) -> Result<Vec<u8>> {
        let mut stream = self.customer.read_from(self.key, 0, etag).await?;
        let mut body = Vec::new();
        while let Some(piece) = stream.next().await {
            body.extend_from_slice(&piece?);
        }
        Ok(body)
    }

    /// Who would own the objects. A bucket that takes the ACL `private` has ACLs enabled, and there, without an ACL that says otherwise,
    /// the account that uploads owns. Source: Amazon S3 User Guide, "Controlling ownership of objects".
    async fn ownership(&mut self) {
        if !self.lines.is_ok(Step::Create) {
            return;
        }
        if self.destination.acl.is_some() {
            return self.lines.note(Step::Ownership, Outcome::Ok, "`acl` gives the bucket's owner full control");
        }
        if self.destination.credentials != Credentials::Own {
            return self.lines.note(Step::Ownership, Outcome::NotNeeded, "the customer's own identity writes");
        }
        let our_account = self.our_role.and_then(|arn| arn.split(':').nth(4));
        if our_account.is_some() && our_account == self.destination.expected_bucket_owner.as_deref() {
            return self.lines.note(Step::Ownership, Outcome::NotNeeded, "the bucket is of our own account");
        }
        // Nothing is begun that could not be given up again.
        let Some(varied) = self
            .customer
            .varied(Variation::PrivateAcl)
            .filter(|_| self.lines.is_ok(Step::Abort) && self.lines.is_ok(Step::Create))
        else {
            return;
        };
        match varied.create(self.key, CONTENT_TYPE).await {
            Ok(id) => {
                self.open.push(id);
                let message = "the bucket has ACLs enabled (an older one), so our account would own the objects and the customer could not read them: set `acl = \"bucket-owner-full-control\"`, or ask the customer to set `BucketOwnerEnforced`";
                self.lines.note(Step::Ownership, Outcome::Warning, message);
            }
            Err(error) if Refused::of(&error).is_some_and(|refused| refused.code == "AccessControlListNotSupported") => {
                self.lines.note(Step::Ownership, Outcome::Ok, "ACLs are disabled: the bucket's owner owns every object");
            }
            Err(error) => {
                self.may_have_begun(&error);
                let message =
                    "it could not be told whether ACLs are disabled: if the bucket is from before April 2023, ask the customer";
                self.lines.note(Step::Ownership, Outcome::NotTried, message);
            }
        }
    }

    /// Gives up every upload that is open, and deletes the probe; that is the test of deleting too.
    async fn cleans_up(&mut self) {
        for id in std::mem::take(&mut self.open) {
            if let Err(error) = again(async || self.customer.abort(self.key, &id).await).await {
                self.left.push(format!("an unfinished upload of `{}` ({error}): the bucket's lifecycle rule ends it", self.key));
                if self.lines.is_ok(Step::Abort) {
                    self.lines.refused(Step::Abort, &error);
                }
            }
        }
        let is_needed = self.destination.layout.deletes();
        if self.object == Object::None {
            if !is_needed {
                self.lines.note(Step::Delete, Outcome::NotNeeded, "this layout deletes nothing");
            }
            return;
        }
        let deleted = again(async || self.customer.delete(self.key).await).await;
        let perhaps = if self.object == Object::Perhaps { "perhaps " } else { "" };
        match deleted {
            Ok(()) if is_needed => self.lines.note(Step::Delete, Outcome::Ok, "the probe is gone again"),
            Ok(()) => self.lines.note(
                Step::Delete,
                Outcome::NotNeeded,
                "this layout deletes nothing; it is allowed, so the probe is gone again",
            ),
            Err(error) => {
                self.left.push(format!("{perhaps}the probe `{}`, {} bytes: it may be deleted by hand", self.key, TEXT.len()));
                if is_needed {
                    self.lines.refused(Step::Delete, &error);
                } else {
                    let outcome = if error.kind() == Kind::Retryable { "failed" } else { "is not allowed" };
                    let message = format!("this layout deletes nothing; it {outcome}, so the probe stays");
                    self.lines.note(Step::Delete, Outcome::NotNeeded, message);
                }
            }
        }
    }

    /// What follows from the other steps.
    fn concludes(&mut self) {
        let has_written = self.lines.is_ok(Step::Complete);
        let is_of_another = self.lines.is_refused(Step::Owner);
        let has_reached = self.lines.is_ok(Step::Create) || self.lines.is_ok(Step::Abort) || is_of_another;
        if has_reached && !self.lines.is_known(Step::Region) {
            let region = self.customer.region().unwrap_or_else(|| "as configured".to_owned());
            self.lines.note(Step::Region, Outcome::Ok, region);
        }
        if has_reached && !self.lines.is_known(Step::Owner) {
            let owner = self.destination.expected_bucket_owner.as_deref().unwrap_or_default();
            self.lines.note(Step::Owner, Outcome::Ok, format!("account `{owner}` owns the bucket"));
        }
        if !self.lines.is_known(Step::Encryption) {
            match &self.destination.encryption {
                None => {
                    self.lines.note(Step::Encryption, Outcome::NotNeeded, "`encryption` is not set: the bucket's default holds");
                }
                Some(encryption) if has_written => {
                    let what = match encryption {
                        Encryption::Aes256 => "`AES256` was taken".to_owned(),
                        Encryption::Kms(None) => "`aws:kms` with the bucket's default key was taken".to_owned(),
                        Encryption::Kms(Some(key)) => format!("`aws:kms` with `{key}` was taken"),
                    };
                    self.lines.note(Step::Encryption, Outcome::Ok, what);
                }
                Some(_) => {}
            }
        }
    }
}

/// Tries what takes the test's own traces away again while time may help.
async fn again(request: impl AsyncFn() -> Result<()>) -> Result<()> {
    let mut tries = 1;
    loop {
        match request().await {
            Err(error) if error.kind() == Kind::Retryable && tries < MOST_TRIES => tries += 1,
            answer => return answer,
        }
    }
}
