//! The Lambda function: an event comes in, an answer or a `Diagnostic` of the failure's kind goes out, each failure is logged once.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use lambda_runtime::{Diagnostic, LambdaEvent};
use serde_json::Value;

use super::answer::one_line;
use super::{Answer, Failure, Invocation, Services, Watcher, bug_of, handle, now_millis};
use crate::config::Environment;
use crate::domain::error::Error;
use crate::report::metrics;
use crate::run::answer::{RunAnswer, RunOutcome};
use crate::store::s3::Clients;
use crate::trigger::Request;

/// What the function keeps from one invocation to the next: the environment, and the clients' credentials and configuration.
///
/// `dayport.toml` is not among them: it is read at the start of each invocation, one small request for what then takes seconds or minutes. So a
/// mended configuration holds at once, also where Lambda keeps an old environment warm, and a bad one is the answer of each invocation
/// (`Dayport.Vendor`, with every mistake) instead of a failed init, which nobody who invokes gets to read.
pub struct Function {
    environment: Environment,
    clients: Clients,
    log: Box<dyn Fn(&str) + Send + Sync>,
}

impl Function {
    /// A function that writes its own log lines (commits and failures, each a JSON object) with `log`.
    #[must_use]
    pub fn new(environment: Environment, clients: Clients, log: impl Fn(&str) + Send + Sync + 'static) -> Function {
        Function { environment, clients, log: Box::new(log) }
    }

    /// Answers one event. Its failure is logged here, and nowhere else.
    #[expect(clippy::result_large_err, reason = "once an invocation")]
    pub async fn invoke(&self, event: LambdaEvent<Value>) -> Result<Answer, Failure> {
        let invocation = Invocation::until(event.context.request_id, event.context.deadline, now_millis());
        let answered = AssertUnwindSafe(self.answer(&event.payload, &invocation)).catch_unwind().await;
        let outcome = answered.unwrap_or_else(|panic| Err(bug_of(panic.as_ref()).into()));
        match outcome {
            Ok(answer) => {
                let answer = answer.fitted();
                // Runs of the work queue fail without failing the invocation, and are no part of what Lambda is told.
                if let Some(error) = answer.failure() {
                    let told = Answer { failed_messages: None, ..answer.clone() };
                    (self.log)(&metrics::failure_line(&error, invocation.id(), Some(&told)));
                }
                Ok(answer)
            }
            Err(failure) => {
                let failure = Failure { answer: failure.answer.map(Answer::fitted), ..failure };
                (self.log)(&metrics::failure_line(&failure.error, invocation.id(), failure.answer.as_ref()));
                Err(failure)
            }
        }
    }

    async fn answer(&self, event: &Value, invocation: &Invocation) -> Result<Answer, Failure> {
        let request = Request::from_event(event)?;
        let services = Services::load(None, &self.clients, &self.environment).await?;
        Box::pin(handle(&services, &request, invocation, self)).await
    }
}

impl Watcher for Function {
    fn ended(&self, answer: &RunAnswer) {
        if answer.state == RunOutcome::Committed {
            (self.log)(&metrics::commit_line(answer));
        }
    }
}

impl From<Error> for Diagnostic {
    /// `errorType` is the kind, `Dayport.Retryable` and so on; the message is one line.
    fn from(error: Error) -> Self {
        Diagnostic { error_type: error.kind().error_type().to_owned(), error_message: one_line(&error.to_string()) }
    }
}

impl From<Failure> for Diagnostic {
    fn from(failure: Failure) -> Self {
        failure.error.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::error::Kind;

    #[test]
    fn lambdas_error_type_is_the_kind_and_its_message_one_line() {
        for (kind, error_type) in [
            (Kind::Retryable, "Dayport.Retryable"),
            (Kind::Customer, "Dayport.Customer"),
            (Kind::Vendor, "Dayport.Vendor"),
            (Kind::Bug, "Dayport.Bug"),
        ] {
            let error = Error::new(kind, "a: b\nc: d").with_source(std::io::Error::other("e"));
            let diagnostic = Diagnostic::from(Failure::from(error));
            assert_eq!((diagnostic.error_type.as_str(), diagnostic.error_message.as_str()), (error_type, "a: b; c: d: e"));
        }
    }
}
