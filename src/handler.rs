//! A request becomes runs, and the runs one answer: which destinations and days, each tried by itself, the worst failure reported.

mod answer;
#[cfg(feature = "lambda")]
mod function;
mod inspect;
mod invocation;
mod job;
mod messages;
mod schema;
mod work;

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::Mutex;
use tracing::Instrument as _;

use crate::access::check::{self, Report};
use crate::access::credentials::{self, Variables};
use crate::config::{self, Environment, variable};
use crate::domain::error::{Error, Result};
use crate::domain::run::{Day, RunId};
use crate::domain::settings::{Destination, Settings};
use crate::domain::spelling::brief;
use crate::report::progress::state_name;
use crate::run::answer::{RunAnswer, RunOutcome};
use crate::run::driver::{Asked, Rim, Stores, run_day};
use crate::run::due::{Due, due_days};
use crate::spool::book::account_and_name;
use crate::spool::staged::SpooledStaging;
use crate::store::lanes::{LANES, bounded};
use crate::store::ports::Read;
use crate::store::queue::Message;
use crate::store::s3::{Address, Clients, RequestOptions, S3Bucket, Side};
use crate::store::sqs::SqsQueue;
use crate::trigger::Request;
use aws_credential_types::provider::SharedCredentialsProvider;

pub use self::answer::{Answer, Failure};
#[cfg(feature = "lambda")]
pub use self::function::Function;
pub use self::invocation::{Invocation, Nobody, Watcher, now_millis};
pub use self::schema::Against;

/// What comes before the part of a key in a crash point: see [`variable::CRASH_POINT`].
const PANIC_ON_OBJECT: &str = "panic_on_object=";

/// All that runs are made with: the settings, and a client for each of their buckets.
pub struct Services {
    settings: Settings,
    staging: S3Bucket,
    state: S3Bucket,
    customers: BTreeMap<String, S3Bucket>,
    signers: BTreeMap<String, SharedCredentialsProvider>,
    work: Option<SqsQueue>,
    clients: Clients,
    queue: Option<SqsQueue>,
    /// The invocation that has drained the queue last.
    drained: Mutex<Option<String>>,
    now_millis: Box<dyn Fn() -> i64 + Send + Sync>,
    panic_on_object: Option<String>,
}

impl Services {
    /// Services over ready settings.
    #[must_use]
    pub fn new(settings: Settings, clients: &Clients, environment: &Environment) -> Services {
        let variables: Variables = Arc::new(config::named_variable);
        let signer = |destination: &Destination| {
            Some((destination.name.clone(), credentials::provider(destination, clients, &variables)?))
        };
        let signers: BTreeMap<_, _> = settings.destinations.iter().filter_map(signer).collect();
        let customer = |destination: &Destination| {
            (destination.name.clone(), clients.destination(destination, signers.get(&destination.name).cloned()))
        };
        Services {
            staging: clients.staging(&settings.staging),
            state: clients.state(&settings.state),
            customers: settings.destinations.iter().map(customer).collect(),
            signers,
            work: settings.run.work_queue_url.as_deref().map(|url| clients.queue(url)),
            clients: clients.clone(),
            queue: settings.staging.queue.as_ref().map(|queue| clients.queue(&queue.url)),
            drained: Mutex::default(),
            settings,
            now_millis: Box::new(now_millis),
            panic_on_object: panic_on_object(environment),
        }
    }

    /// Services over the configuration at `place`, as [`settings_at`] reads it.
    pub async fn load(place: Option<&str>, clients: &Clients, environment: &Environment) -> Result<Services> {
        let settings = settings_at(place, environment, std::future::ready(clients.clone())).await?;
        Ok(Services::new(settings, clients, environment))
    }

    /// The same with another clock: milliseconds since 1970.
    #[must_use]
    pub fn with_clock(self, now_millis: impl Fn() -> i64 + Send + Sync + 'static) -> Services {
        Services { now_millis: Box::new(now_millis), ..self }
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The bucket of the state.
    #[must_use]
    pub fn state(&self) -> &S3Bucket {
        &self.state
    }

    async fn run(&self, turn: &Turn<'_>, force: Option<&str>, invocation: &Invocation, watcher: &dyn Watcher) -> RunAnswer {
        let Some(customer) = self.customers.get(&turn.destination.name) else {
            return RunAnswer::failed(&turn.run(), &Error::bug("the destination has no client, please report it"));
        };
        let rim = Rim {
            now_millis: &*self.now_millis,
            millis_left: &|| invocation.millis_left(),
            on_progress: &|progress| watcher.progress(progress),
            panic_on_object: self.panic_on_object.clone(),
        };
        let before = messages::DrainOnce { services: self, invocation };
        let staging = SpooledStaging::new(&self.settings, turn.destination, &self.staging, &self.state, before);
        let stores = Stores { staging: &staging, state: &self.state, customer };
        let configuration = config::digest_of(turn.destination, &self.settings);
        let asked = Asked { day: turn.day, force, configuration: &configuration };
        // On the heap: a run's future is large, and so deep a type that the compiler gives up on what holds it.
        Box::pin(run_day(&rim, &self.settings, turn.destination, stores, asked)).await
    }
}

impl Services {
    /// The work queue, if that is the queue of the ARN.
    fn work_behind(&self, arn: &str) -> Option<&SqsQueue> {
        self.work.as_ref().filter(|work| account_and_name(work.url()) == account_and_name(arn))
    }

    /// The connection test of a destination.
    async fn check(&self, destination: &Destination) -> Result<Report> {
        let Some(customer) = self.customers.get(&destination.name) else {
            return Err(Error::bug("the destination has no client, please report it"));
        };
        let signer = check::credentials(destination, &self.clients, self.signers.get(&destination.name)).await;
        // On the heap, as a run's.
        let report = Box::pin(check::check(&self.settings, destination, signer, customer, &self.state, &self.staging)).await;
        Ok(report)
    }
}

fn panic_on_object(environment: &Environment) -> Option<String> {
    let point = environment.crash_point.as_deref()?;
    let part = point.strip_prefix(PANIC_ON_OBJECT);
    if part.is_none() {
        tracing::warn!(point, "`{}` names no crash point, there is `{PANIC_ON_OBJECT}…`", variable::CRASH_POINT);
    }
    part.map(str::to_owned)
}

/// The settings of the configuration at `place` (a path, or `s3://bucket/key`), or else where the environment says that it is. Only one in a
/// bucket needs `clients`, and with them a network.
///
/// Fails with kind `Vendor` where there is none, or with every mistake in it.
pub async fn settings_at(
    place: Option<&str>,
    environment: &Environment,
    clients: impl Future<Output = Clients>,
) -> Result<Settings> {
    let Some(place) = place.or(environment.config.as_deref()) else {
        return Err(Error::vendor(format!(
            "no configuration is named, set `{}` to its path or `s3://bucket/key` (the command also takes `--config`)",
            variable::CONFIG
        )));
    };
    config::parse(&read_configuration(place, clients).await?, environment)
}

async fn read_configuration(place: &str, clients: impl Future<Output = Clients>) -> Result<String> {
    let bytes = match config::split_s3_url(place)? {
        None => std::fs::read(place).map_err(|error| {
            Error::vendor(format!("the configuration `{place}` could not be read, name a file that is there")).with_source(error)
        })?,
        Some((bucket, key)) => {
            let address = Address { bucket: bucket.to_owned(), region: None, path_style: false };
            let bucket = clients.await.bucket(&address, None, RequestOptions::default(), Side::Vendor);
            let found =
                Box::pin(bucket.read_small(key)).await.map_err(|error| error.context("the configuration could not be read"))?;
            let missing = || Error::vendor(format!("there is no configuration at `{place}`, put `dayport.toml` there"));
            found.ok_or_else(missing)?.0.to_vec()
        }
    };
    String::from_utf8(bytes)
        .map_err(|_| Error::vendor(format!("the configuration `{place}` is not UTF-8 text, write it as such")))
}

/// One run to be made: a destination and a day, why, and what stands in its way.
#[derive(Debug)]
struct Turn<'s> {
    destination: &'s Destination,
    day: Day,
    why: Due,
    is_paused: bool,
    /// What the destination's head could not be read for: then it is not known which days come first.
    unread: Option<Error>,
}

impl Turn<'_> {
    fn run(&self) -> RunId {
        RunId { destination: self.destination.name.clone(), day: self.day }
    }
}

/// Does what a request asks for, and answers with every run, in the order in which they were tried: by hand the oldest day first, on one
/// day in the order of the configuration; for a schedule what is open first, then what was missed, then the trigger's own day. With a work
/// queue, a schedule's runs and those of several destinations or days are sent there instead, and answered `queued`.
///
/// Each run is tried, whatever became of those before it. Where any failed, the answer comes with the failure to report. Nothing is
/// begun where the request names a destination that isn't there, or the invocation's time is too short for the lease.
pub async fn handle(
    services: &Services,
    request: &Request,
    invocation: &Invocation,
    watcher: &dyn Watcher,
) -> Result<Answer, Failure> {
    let settings = services.settings();
    let work = match request {
        Request::Messages { queue, .. } => services.work_behind(queue),
        _ => None,
    };
    if let (Request::Messages { queue, messages }, None) = (request, work) {
        // No run is begun, so no lease has to fit into the timeout.
        return Ok(Box::pin(services.take_in(queue, messages)).await?);
    }
    if let Some(limit) = invocation.limit() {
        // Lambda's timeouts are whole seconds; the deadline was made a moment ago.
        config::check_timeout(settings, Duration::from_secs(limit.as_millis().div_ceil(1000).try_into().unwrap_or(u64::MAX)))?;
    }
    if let (Request::Messages { messages, .. }, Some(work)) = (request, work) {
        return Ok(Box::pin(taken(services, work, messages, invocation, watcher)).await);
    }
    if let Request::Check { destination: name } = request {
        let report = services.check(named(name, &settings.destinations)?).await?;
        return match report.failure() {
            None => Ok(Answer::of_check(report)),
            Some(error) => Err(Failure { error, answer: Some(Answer::of_check(report)) }),
        };
    }
    let mut turns = turns(settings, request)?;
    if matches!(request, Request::Scheduled { .. }) {
        turns = covered(&services.state, settings, turns).await;
    }
    let force = matches!(request, Request::Days { force: true, .. }).then(|| invocation.id());
    let is_scheduled = matches!(request, Request::Scheduled { .. });
    // Without a deadline everything gets its turn: there is nothing to hand on.
    let queue = services.work.as_ref().filter(|_| invocation.limit().is_some());
    let runs = match queue {
        Some(queue) if is_scheduled || turns.len() > 1 => work::queue_up(queue, &turns, force, is_scheduled).await,
        _ => {
            let run = async |turn: &Turn<'_>| services.run(turn, force, invocation, watcher).await;
            let mut runs = drive(&turns, settings.run.margin_millis(), invocation, watcher, run).await;
            if let (Some(queue), [turn], [answer]) = (queue, turns.as_slice(), runs.as_mut_slice())
                && answer.state == RunOutcome::Continued
            {
                answer.notes.push(match work::go_on(queue, turn, force).await {
                    Ok(()) => "it goes on by the work queue".to_owned(),
                    Err(error) => format!("call again, since the work queue did not take it: {error}"),
                });
            }
            runs
        }
    };
    let answer = Answer { runs, ..Answer::default() };
    match answer.failure() {
        None => Ok(answer),
        Some(error) => Err(Failure { error, answer: Some(answer) }),
    }
}

/// Makes the runs that messages of the work queue ask for; which of them come back is the answer.
///
/// A run that fails does not fail the invocation: its message would come back whatever it failed of.
async fn taken(
    services: &Services,
    work: &SqsQueue,
    messages: &[Message],
    invocation: &Invocation,
    watcher: &dyn Watcher,
) -> Answer {
    let mut answer = Answer::of_messages(Vec::new());
    for message in messages {
        let run = async |turn: &Turn<'_>, force: Option<&str>| services.run(turn, force, invocation, watcher).await;
        let taken = work::take(work, services.settings(), message, invocation, watcher, run).await;
        answer.runs.extend(taken.answer);
        if !taken.is_done {
            answer.failed_messages.get_or_insert_default().push(message.id.clone());
        }
    }
    answer
}

/// The runs that a request names, in their order.
///
/// A destination that isn't enabled rests, unless it was named by hand.
fn turns<'s>(settings: &'s Settings, request: &Request) -> Result<Vec<Turn<'s>>> {
    let names: &[String] = match request {
        Request::Scheduled { destination, .. } => destination.as_slice(),
        Request::Days { destinations, .. } => destinations,
        Request::Check { .. } | Request::Messages { .. } => return Ok(Vec::new()),
    };
    for name in names {
        named(name, &settings.destinations)?;
    }
    let is_by_hand = matches!(request, Request::Days { .. });
    let mut turns = Vec::new();
    for destination in &settings.destinations {
        let is_named = names.contains(&destination.name);
        if !names.is_empty() && !is_named {
            continue;
        }
        let is_called = is_by_hand && is_named;
        let days = request.days_for(destination, settings.run.lag_days);
        let is_paused = !destination.enabled && !is_called;
        turns.extend(days.into_iter().map(|day| Turn { destination, day, why: Due::Own, is_paused, unread: None }));
    }
    turns.sort_by_key(|turn| turn.day);
    Ok(turns)
}

/// The runs that a scheduled trigger covers beside its own: each destination's open ones and the days that it missed.
async fn covered<'s>(state: &(impl Read + Sync), settings: &'s Settings, own: Vec<Turn<'s>>) -> Vec<Turn<'s>> {
    let of_destination = |turn: Turn<'s>| async move {
        if turn.is_paused {
            return Ok(vec![turn]);
        }
        let Turn { destination, day, is_paused, .. } = turn;
        let due = due_days(state, &settings.state, destination, day, settings.run.catch_up_days).await;
        Ok(match due {
            Ok(days) => {
                days.into_iter().map(|(why, day)| Turn { destination, day, why, is_paused, unread: None }).collect::<Vec<_>>()
            }
            Err(error) => {
                let error = error.context("which days are due could not be found out");
                vec![Turn { unread: Some(error), ..turn }]
            }
        })
    };
    // None of them fails as a whole: each destination fails alone.
    let mut turns: Vec<Turn<'s>> = bounded(own, LANES, of_destination).await.unwrap_or_default().into_iter().flatten().collect();
    let place = |turn: &Turn<'_>| settings.destinations.iter().position(|known| known.name == turn.destination.name);
    turns.sort_by_key(|turn| (turn.why, turn.day, place(turn)));
    turns
}

/// The destination of that name.
///
/// Fails with kind `Vendor` where there is none, and names the nearest.
pub fn named<'d>(name: &str, destinations: &'d [Destination]) -> Result<&'d Destination> {
    destinations.iter().find(|destination| destination.name == name).ok_or_else(|| unknown(name, destinations))
}

fn unknown(name: &str, destinations: &[Destination]) -> Error {
    let likeness = |known: &str| strsim::normalized_damerau_levenshtein(name, known);
    let nearest = destinations
        .iter()
        .map(|destination| destination.name.as_str())
        .max_by(|one, other| likeness(one).total_cmp(&likeness(other)))
        .filter(|known| likeness(known) > 0.3)
        .map(|known| format!(", did you mean `{known}`?"))
        .unwrap_or_default();
    let known: Vec<String> = destinations.iter().map(|destination| format!("`{}`", destination.name)).collect();
    let shown = brief(name, 80);
    Error::vendor(format!("there is no destination `{shown}`{nearest} (there are {})", known.join(", ")))
}

/// Makes the runs in turn.
async fn drive(
    turns: &[Turn<'_>],
    margin_millis: u64,
    invocation: &Invocation,
    watcher: &dyn Watcher,
    run: impl AsyncFn(&Turn<'_>) -> RunAnswer,
) -> Vec<RunAnswer> {
    let mut waiting: BTreeMap<&str, RunOutcome> = BTreeMap::new();
    let mut answers = Vec::with_capacity(turns.len());
    for turn in turns {
        let id = turn.run();
        let has_no_time = invocation.millis_left().is_some_and(|left| left <= margin_millis);
        let earlier_day = waiting.get(turn.destination.name.as_str()).copied();
        let answer = if turn.is_paused {
            RunAnswer::bare(&id, RunOutcome::Paused)
        } else if let Some(error) = &turn.unread {
            RunAnswer::failed(&id, error)
        } else if let Some(outcome) = earlier_day {
            // Never two days of a destination at once, and each after those before it.
            noted(&id, outcome, "not begun: an earlier day of this destination goes first")
        } else if has_no_time {
            noted(&id, RunOutcome::Continued, "not begun: this invocation's time ran out")
        } else {
            tracing::info!(destination = id.destination, date = %id.day, "run begins");
            watcher.begins(&id);
            let span = tracing::info_span!("run", destination = id.destination, date = %id.day);
            let answer = to_its_end(&id, invocation, || run(turn)).instrument(span).await;
            let state = state_name(answer.state);
            tracing::info!(destination = id.destination, date = %id.day, state, seconds = answer.seconds, "run ended");
            watcher.ended(&answer);
            answer
        };
        if matches!(answer.state, RunOutcome::Busy | RunOutcome::Continued) {
            waiting.insert(&turn.destination.name, answer.state);
        }
        answers.push(answer);
    }
    answers
}

/// Runs once, or, where no deadline makes a run stop before its end, until it has ended. A panic fails this run alone.
async fn to_its_end<F: Future<Output = RunAnswer>>(id: &RunId, invocation: &Invocation, run: impl Fn() -> F) -> RunAnswer {
    let mut seconds = 0.0;
    loop {
        let mut answer = match AssertUnwindSafe(run()).catch_unwind().await {
            Ok(answer) => answer,
            Err(panic) => RunAnswer::failed(id, &bug_of(panic.as_ref())),
        };
        seconds += answer.seconds;
        answer.seconds = seconds;
        if answer.state != RunOutcome::Continued || invocation.millis_left().is_some() {
            return answer;
        }
    }
}

fn noted(id: &RunId, outcome: RunOutcome, note: &str) -> RunAnswer {
    RunAnswer { notes: vec![note.to_owned()], ..RunAnswer::bare(id, outcome) }
}

/// The bug that a panic is.
fn bug_of(panic: &(dyn Any + Send)) -> Error {
    let said = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    Error::bug(format!("dayport panicked: {}, please report it", answer::one_line(said.unwrap_or("without a message"))))
}

#[cfg(test)]
mod tests;
