//! The command line: what can be asked for, and the same calls that the function makes.

mod check;
mod ddl;
mod local;
mod policy;
mod quarantine;
mod run;
mod sample;
mod schema;
mod signals;
mod status;
mod terminal;
mod verify;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use serde::Serialize;

use crate::config::Environment;
use crate::domain::error::{Error, Result};
use crate::domain::run::Day;
use crate::handler::Services;
use crate::records::route::Reason;
use crate::store::s3::{Clients, Retries};

pub use self::terminal::Terminal;

/// Lands a day of staged event data in each customer's own S3 bucket: typed, once, all or nothing.
#[derive(Debug, Parser)]
#[command(name = "dayport", version, disable_help_subcommand = true)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// A command.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Land a day, or several, in every destination or in those that are named
    Run(RunArguments),
    /// Test the connection to a destination: every operation of a run, cleaned up, and who must mend what is refused
    Check(CheckArguments),
    /// Print what the customer has to allow: the policy of their bucket, key or role
    Policy(PolicyArguments),
    /// List and show the records that could not be delivered
    #[command(subcommand)]
    Quarantine(QuarantineCommand),
    /// Read again what landed of a day, and compare it with the manifest: existence, size, checksum, rows, columns
    #[command(after_help = "Example: dayport verify acme --date 2026-01-15")]
    Verify(VerifyArguments),
    /// Show where every day of every destination stands: committed, under way, failed, dead; what came late, what is left open
    #[command(after_help = "Example: dayport status acme --days 30")]
    Status(StatusArguments),
    /// Show, compare, declare ahead or restore the pinned schemas of a destination's Parquet tables
    #[command(
        after_help = "Examples:\n  dayport schema show acme pageview_events\n  dayport schema set acme pageview_events properties.price=double\n  dayport schema diff acme --with globex\n  dayport schema rebuild acme --dry-run"
    )]
    Schema(SchemaArguments),
    /// Print the statements that define a destination's tables for a reader's engine
    #[command(after_help = "Example: dayport ddl acme pageview_events --dialect duckdb")]
    Ddl(DdlArguments),
    /// Serve S3 from a folder on this machine, for trying things without an account
    Local(LocalArguments),
    /// Make a sample day of staged records
    Sample(SampleArguments),
}

/// `dayport run`.
#[derive(Args, Debug)]
#[command(override_usage = "dayport run [--config FILE] (--date DAY | --from DAY --to DAY) [OPTIONS]")]
pub struct RunArguments {
    /// The configuration: a path, or `s3://bucket/key` [default: the variable `DAYPORT_CONFIG`]
    #[arg(long, value_name = "FILE")]
    pub config: Option<String>,
    /// The day to land, such as 2026-01-15
    #[arg(long, value_name = "DAY", required_unless_present = "from", conflicts_with_all = ["from", "to"])]
    pub date: Option<Day>,
    /// The first of several days
    #[arg(long, value_name = "DAY", requires = "to")]
    pub from: Option<Day>,
    /// The last of them
    #[arg(long, value_name = "DAY", requires = "from")]
    pub to: Option<Day>,
    /// Only this destination; may be given several times [default: every enabled one]
    #[arg(long = "destination", value_name = "NAME")]
    pub destinations: Vec<String>,
    /// Run a day again that is committed already
    #[arg(long)]
    pub force: bool,
    /// How to print the answer
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// `dayport check`.
#[derive(Args, Debug)]
pub struct CheckArguments {
    /// The destination
    #[arg(value_name = "NAME")]
    pub destination: String,
    /// The configuration: a path, or `s3://bucket/key` [default: the variable `DAYPORT_CONFIG`]
    #[arg(long, value_name = "FILE")]
    pub config: Option<String>,
    /// How to print the answer
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// `dayport verify`.
#[derive(Args, Debug)]
pub struct VerifyArguments {
    /// The destination
    #[arg(value_name = "NAME")]
    pub destination: String,
    /// The committed day, such as 2026-01-15
    #[arg(long, value_name = "DAY")]
    pub date: Day,
    /// The configuration: a path, or `s3://bucket/key` [default: the variable `DAYPORT_CONFIG`]
    #[arg(long, value_name = "FILE")]
    pub config: Option<String>,
    /// How to print the answer
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// `dayport status`.
#[derive(Args, Debug)]
pub struct StatusArguments {
    /// Only this destination, wherever it was, also if it is no longer configured [default: all]
    #[arg(value_name = "NAME")]
    pub destination: Option<String>,
    /// How many of the latest committed days to show; what is not done is always shown
    #[arg(long, value_name = "N", default_value_t = 14)]
    pub days: usize,
    /// The configuration: a path, or `s3://bucket/key` [default: the variable `DAYPORT_CONFIG`]
    #[arg(long, value_name = "FILE")]
    pub config: Option<String>,
    /// How to print the answer
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// `dayport schema`.
#[derive(Args, Debug)]
pub struct SchemaArguments {
    /// What to do with them.
    #[command(subcommand)]
    pub command: SchemaCommand,
    /// The configuration: a path, or `s3://bucket/key` [default: the variable `DAYPORT_CONFIG`]
    #[arg(long, value_name = "FILE", global = true)]
    pub config: Option<String>,
    /// How to print the answer
    #[arg(long, value_enum, default_value_t = Output::Text, global = true)]
    pub output: Output,
}

/// A command on schemas.
#[derive(Debug, Subcommand)]
pub enum SchemaCommand {
    /// Show the columns: path, type, field id, first day, original key, and how much of the budget is used
    Show {
        /// The destination
        #[arg(value_name = "NAME")]
        destination: String,
        /// Only this table [default: all]
        #[arg(value_name = "TABLE")]
        table: Option<String>,
        /// A version of it [default: the current one]
        #[arg(long, value_name = "N", requires = "table")]
        version: Option<u32>,
    },
    /// Declare columns for the runs to come, and say what files that landed before then mean
    Set {
        /// The destination
        #[arg(value_name = "NAME")]
        destination: String,
        /// The table; it need not have landed yet
        #[arg(value_name = "TABLE")]
        table: String,
        /// A column and its type as in the configuration, such as `properties.price=double`
        #[arg(value_name = "PATH=TYPE", required = true)]
        columns: Vec<String>,
    },
    /// Compare what is registered with what is configured, two versions of a table, or two destinations
    Diff {
        /// The destination
        #[arg(value_name = "NAME")]
        destination: String,
        /// Only this table [default: all]
        #[arg(value_name = "TABLE")]
        table: Option<String>,
        /// The older version of the table
        #[arg(long, value_name = "N", requires_all = ["table", "to"])]
        from: Option<u32>,
        /// The newer one
        #[arg(long, value_name = "N", requires = "from")]
        to: Option<u32>,
        /// The other destination
        #[arg(long, value_name = "NAME", conflicts_with_all = ["from", "to"])]
        with: Option<String>,
    },
    /// Restore registry, committed days and snapshot pointers of a lost state; what is there is never changed
    Rebuild {
        /// The destination
        #[arg(value_name = "NAME")]
        destination: String,
        /// A folder with the customer's manifests (`_dayport/*.json`), where their bucket can't be read
        #[arg(long, value_name = "DIR")]
        manifests: Option<PathBuf>,
        /// Say what would be restored, and write nothing
        #[arg(long)]
        dry_run: bool,
    },
}

/// `dayport ddl`.
#[derive(Args, Debug)]
pub struct DdlArguments {
    /// The destination
    #[arg(value_name = "NAME")]
    pub destination: String,
    /// Only this table [default: all]
    #[arg(value_name = "TABLE")]
    pub table: Option<String>,
    /// The engine
    #[arg(long, value_enum, default_value_t = DdlDialect::Athena)]
    pub dialect: DdlDialect,
    /// The configuration: a path, or `s3://bucket/key` [default: the variable `DAYPORT_CONFIG`]
    #[arg(long, value_name = "FILE")]
    pub config: Option<String>,
}

/// In whose words tables are defined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DdlDialect {
    /// Amazon Athena, with partition projection
    Athena,
    /// Spark SQL
    Spark,
    /// DuckDB
    #[value(name = "duckdb")]
    DuckDb,
    /// Snowflake
    Snowflake,
}

/// `dayport policy`.
#[derive(Args, Debug)]
pub struct PolicyArguments {
    /// The destination
    #[arg(value_name = "NAME")]
    pub destination: String,
    /// The configuration: a path, or `s3://bucket/key` [default: the variable `DAYPORT_CONFIG`]
    #[arg(long, value_name = "FILE")]
    pub config: Option<String>,
    /// Print the statement for the customer's KMS key, and ours
    #[arg(long, conflicts_with = "trust")]
    pub kms: bool,
    /// Print the trust policy of the customer's role that `role_arn` names
    #[arg(long)]
    pub trust: bool,
    /// The policy that is there, as JSON: ours is added to it, or replaces what of ours it has
    #[arg(long, value_name = "FILE")]
    pub merge: Option<PathBuf>,
    /// Whom to allow [default: `function_role_arn` in `[run]`]
    #[arg(long, value_name = "ARN")]
    pub principal: Option<String>,
    /// How to print it
    #[arg(long, value_enum, default_value_t = PolicyOutput::Json)]
    pub output: PolicyOutput,
}

/// How a policy is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PolicyOutput {
    /// The policy itself
    Json,
    /// A Terraform resource
    Terraform,
    /// A CloudFormation template
    #[value(name = "cloudformation")]
    CloudFormation,
}

/// How an answer is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For a person
    Text,
    /// As the function answers
    Json,
}

/// `dayport quarantine`.
#[derive(Debug, Subcommand)]
pub enum QuarantineCommand {
    /// List the runs that have records in quarantine, and the days that have messages of the staging queue, with how many and why
    List(QuarantineListArguments),
    /// Print the quarantined records of a run: where each was staged, why it was held back, and its bytes
    Show(QuarantineShowArguments),
    /// Stage quarantined records of a committed run once more, corrected or under changed settings, for their destination alone
    #[command(
        after_help = "To correct records: print them with `show --output json`, change `text`, and name the file with `--file`. The same\nrecord is staged once, however often it is replayed; a day that is still open delivers it."
    )]
    Replay(QuarantineReplayArguments),
}

/// `dayport quarantine list`.
#[derive(Args, Debug)]
pub struct QuarantineListArguments {
    /// The destination [default: all of them]
    #[arg(value_name = "NAME")]
    pub destination: Option<String>,
    /// Only this day
    #[arg(long, value_name = "DAY", conflicts_with_all = ["from", "to"])]
    pub date: Option<Day>,
    /// The first day to list
    #[arg(long, value_name = "DAY")]
    pub from: Option<Day>,
    /// The last day to list
    #[arg(long, value_name = "DAY")]
    pub to: Option<Day>,
    /// The configuration: a path, or `s3://bucket/key` [default: the variable `DAYPORT_CONFIG`]
    #[arg(long, value_name = "FILE")]
    pub config: Option<String>,
    /// How to print the answer
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// Which quarantined records are meant.
#[derive(Args, Debug)]
pub struct QuarantineSelection {
    /// The destination
    #[arg(value_name = "NAME")]
    pub destination: String,
    /// The day that the records were staged for
    #[arg(long, value_name = "DAY")]
    pub date: Day,
    /// The run of the day: 0 is the first, each re-run counts one more [default: the latest]
    #[arg(long, value_name = "N")]
    pub run: Option<u32>,
    /// Only records that were held back for this reason; may be given several times
    #[arg(long = "reason", value_name = "REASON", value_parser = PossibleValuesParser::new(Reason::ALL.map(Reason::name)))]
    pub reasons: Vec<String>,
    /// Only records of the staged object with this key; may be given several times
    #[arg(long = "object", value_name = "KEY")]
    pub objects: Vec<String>,
}

/// `dayport quarantine show`.
#[derive(Args, Debug)]
pub struct QuarantineShowArguments {
    /// Which records
    #[command(flatten)]
    pub selection: QuarantineSelection,
    /// So many records at most [default: 20; with `--output json` all]
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// The configuration: a path, or `s3://bucket/key` [default: the variable `DAYPORT_CONFIG`]
    #[arg(long, value_name = "FILE")]
    pub config: Option<String>,
    /// How to print the records; `json` is one a line, as they are kept
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// `dayport quarantine replay`.
#[derive(Args, Debug)]
pub struct QuarantineReplayArguments {
    /// Which records
    #[command(flatten)]
    pub selection: QuarantineSelection,
    /// Corrected records, in the form of `show --output json` [default: the records as they are kept]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["reasons", "objects"])]
    pub file: Option<PathBuf>,
    /// The day whose run delivers them [default: the one that the next schedule lands, or today]
    #[arg(long, value_name = "DAY")]
    pub into: Option<Day>,
    /// The configuration: a path, or `s3://bucket/key` [default: the variable `DAYPORT_CONFIG`]
    #[arg(long, value_name = "FILE")]
    pub config: Option<String>,
    /// How to print the answer
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// `dayport local`.
#[derive(Args, Debug)]
pub struct LocalArguments {
    /// The folder to serve; each folder in it is a bucket
    #[arg(long, value_name = "DIR")]
    pub root: PathBuf,
    /// The port on 127.0.0.1; 0 takes any that is free
    #[arg(long, default_value_t = 9100)]
    pub port: u16,
}

/// `dayport sample`.
#[derive(Args, Debug)]
pub struct SampleArguments {
    /// The day that the records are of
    #[arg(long, value_name = "DAY")]
    pub date: Day,
    /// Records in all; a million take about 1.2 GB of JSON
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub records: u64,
    /// Another seed gives other records of the same kinds
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Where to: a folder, or `s3://bucket/prefix/`
    #[arg(long, value_name = "DIR-OR-S3")]
    pub out: String,
    /// Objects to cut the events into
    #[arg(long, value_name = "N", default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub objects: u32,
    /// Pack every object as gzip, not also as zstd and plain text
    #[arg(long)]
    pub gzip_only: bool,
}

/// Does what was asked for. What was asked goes to standard output, all else to standard error. The exit code is 0, or 1 where
/// anything failed (clap itself ends with 2 for arguments that it can't take), or 128 and the signal's number after a signal.
pub async fn perform(arguments: Arguments, environment: &Environment, terminal: &Terminal) -> ExitCode {
    let outcome = match arguments.command {
        Command::Run(arguments) => run::run(&arguments, environment, terminal).await,
        Command::Check(arguments) => check::check(&arguments, environment, terminal).await,
        Command::Policy(arguments) => policy::print(&arguments, environment, terminal).await,
        Command::Quarantine(command) => quarantine::perform(&command, environment, terminal).await,
        Command::Verify(arguments) => verify::verify(&arguments, environment, terminal).await,
        Command::Status(arguments) => status::status(&arguments, environment, terminal).await,
        Command::Schema(arguments) => schema::schema(&arguments, environment, terminal).await,
        Command::Ddl(arguments) => ddl::ddl(&arguments, environment, terminal).await,
        Command::Local(arguments) => local::serve(arguments, environment, terminal).await,
        Command::Sample(arguments) => sample::stage(&arguments, terminal).await,
    };
    outcome.unwrap_or_else(|error| {
        for line in error.to_string().lines() {
            terminal.say(&format!("error ({}): {line}", error.kind()));
        }
        ExitCode::FAILURE
    })
}

/// The exit code of a command, or the error to print.
type Outcome = Result<ExitCode>;

/// The services of a command that takes `--config`.
async fn load(config: Option<&str>, environment: &Environment) -> Result<Services> {
    let clients = Clients::from_environment(Retries::default()).await;
    Services::load(config, &clients, environment).await
}

/// Prints what a command reports: text for people, in which a name from outside commands no terminal, or one line of JSON.
fn report(terminal: &Terminal, output: Output, value: &impl Serialize, text: impl FnOnce() -> String) -> Result<()> {
    match output {
        Output::Text => terminal.tell(&text()),
        Output::Json => terminal.print(&json_line(value)?),
    }
}

/// A value as one line of JSON.
fn json_line(value: &impl Serialize) -> Result<String> {
    let json = serde_json::to_string(value);
    Ok(json.map_err(|error| Error::bug("the answer is no JSON, please report it").with_source(error))? + "\n")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use clap::error::ErrorKind;

    use super::*;

    fn parsed(line: &str) -> Result<Command, ErrorKind> {
        let arguments = Arguments::try_parse_from(line.split(' ')).map_err(|error| error.kind());
        arguments.map(|arguments| arguments.command)
    }

    #[test]
    fn the_arguments_are_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_run_takes_a_day_or_several() {
        for line in [
            "dayport run --date 2026-01-15",
            "dayport run --config x.toml --from 2026-01-01 --to 2026-01-15 --force --output json",
            "dayport run --config s3://b/k --date 2026-01-15 --destination a --destination b --output text",
        ] {
            assert!(parsed(line).is_ok(), "{line}");
        }
        for (line, expected) in [
            ("dayport run", ErrorKind::MissingRequiredArgument),
            ("dayport run --from 2026-01-01", ErrorKind::MissingRequiredArgument),
            ("dayport run --to 2026-01-01", ErrorKind::MissingRequiredArgument),
            ("dayport run --date 2026-01-01 --to 2026-01-02 --from 2026-01-01", ErrorKind::ArgumentConflict),
            ("dayport run --date 2026-1-1", ErrorKind::ValueValidation),
            ("dayport run --date 2026-01-01 --output xml", ErrorKind::InvalidValue),
            ("dayport check", ErrorKind::MissingRequiredArgument),
            ("dayport policy acme --kms --trust", ErrorKind::ArgumentConflict),
            ("dayport policy acme --output yaml", ErrorKind::InvalidValue),
            ("dayport quarantine", ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand),
            ("dayport quarantine show acme", ErrorKind::MissingRequiredArgument),
            ("dayport quarantine replay acme --date 2026-01-15 --file f --reason late", ErrorKind::ArgumentConflict),
            ("dayport quarantine show acme --date 2026-01-15 --reason not_jsn", ErrorKind::InvalidValue),
            ("dayport quarantine list --date 2026-01-15 --from 2026-01-14", ErrorKind::ArgumentConflict),
            ("dayport verify acme", ErrorKind::MissingRequiredArgument),
        ] {
            assert_eq!(parsed(line).err(), Some(expected), "{line}");
        }
    }

    #[test]
    fn destinations_are_repeated_and_the_rest_has_defaults() {
        let Ok(Command::Run(run)) = parsed("dayport run --date 2026-01-15 --destination a --destination b") else {
            panic!("not a run");
        };
        assert_eq!((run.destinations, run.force, run.output), (vec!["a".to_owned(), "b".to_owned()], false, Output::Text));
        let Ok(Command::Sample(sample)) = parsed("dayport sample --date 2026-01-15 --out x") else { panic!("not a sample") };
        assert_eq!((sample.records, sample.seed, sample.objects, sample.gzip_only), (20_000, 1, 24, false));
        let Ok(Command::Local(local)) = parsed("dayport local --root x") else { panic!("not local") };
        assert_eq!(local.port, 9100);
    }
}
