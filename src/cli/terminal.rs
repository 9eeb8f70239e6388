//! Standard output for what was asked, standard error for all else, and a progress bar where that is a terminal.

use std::io::{self, ErrorKind, Write};
use std::sync::{Mutex, PoisonError};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use tracing_subscriber::fmt::MakeWriter;

use crate::domain::error::{Error, Result};
use crate::domain::run::RunId;
use crate::domain::spelling::legible;
use crate::handler::Watcher;
use crate::run::answer::RunAnswer;
use crate::run::driver::Progress;

const READING: &str = "{prefix} {bar:30} {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, {eta} to go";
const WITHOUT_TOTAL: &str = "{prefix} {spinner} {msg}";

/// Where a command writes. Clones write to the same place. Nothing is drawn where standard error is not a terminal.
#[derive(Clone, Debug)]
pub struct Terminal {
    bars: MultiProgress,
}

impl Terminal {
    /// The process's own.
    #[must_use]
    pub fn new() -> Terminal {
        Terminal { bars: MultiProgress::with_draw_target(ProgressDrawTarget::stderr()) }
    }

    /// Says a line on standard error, above the progress bar.
    pub fn say(&self, line: &str) {
        let line = legible(line);
        // Whoever can't be told has gone away.
        let _ = self.bars.suspend(|| writeln!(io::stderr().lock(), "{line}"));
    }

    /// Writes text for people to standard output: as [`print`](Terminal::print), with control characters escaped.
    pub fn tell(&self, text: &str) -> Result<()> {
        self.print(&legible(text))
    }

    /// Writes a document to standard output, byte for byte. A reader that went away (`dayport … | head`) is no failure.
    pub fn print(&self, text: &str) -> Result<()> {
        let written = self.bars.suspend(|| {
            let mut out = io::stdout().lock();
            out.write_all(text.as_bytes()).and_then(|()| out.flush())
        });
        match written {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                Err(Error::vendor("the answer could not be written to standard output, see where it goes").with_source(error))
            }
            _ => Ok(()),
        }
    }

    /// A watcher of runs that draws how far they are.
    pub(super) fn bar(&self) -> Bar {
        Bar { bars: self.bars.clone(), bar: Mutex::new(ProgressBar::hidden()) }
    }
}

impl Default for Terminal {
    fn default() -> Self {
        Terminal::new()
    }
}

/// Log lines go above the progress bar.
impl<'a> MakeWriter<'a> for Terminal {
    type Writer = LogLine<'a>;

    fn make_writer(&'a self) -> Self::Writer {
        LogLine { terminal: self }
    }
}

/// Writes a log line to standard error.
#[derive(Debug)]
pub struct LogLine<'a> {
    terminal: &'a Terminal,
}

impl Write for LogLine<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.terminal.bars.suspend(|| io::stderr().lock().write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().lock().flush()
    }
}

/// The progress of the run under way.
pub(super) struct Bar {
    bars: MultiProgress,
    bar: Mutex<ProgressBar>,
}

impl Bar {
    fn current(&self) -> ProgressBar {
        self.bar.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Watcher for Bar {
    fn begins(&self, run: &RunId) {
        let bar = self.bars.add(ProgressBar::no_length());
        bar.set_style(ProgressStyle::with_template(WITHOUT_TOTAL).unwrap_or_else(|_| ProgressStyle::default_spinner()));
        bar.set_prefix(run.to_string());
        bar.set_message("looks for what is staged");
        *self.bar.lock().unwrap_or_else(PoisonError::into_inner) = bar;
    }

    fn progress(&self, progress: Progress) {
        let bar = self.current();
        match progress {
            Progress::Total(bytes) => {
                bar.set_style(ProgressStyle::with_template(READING).unwrap_or_else(|_| ProgressStyle::default_bar()));
                bar.set_length(bytes);
            }
            Progress::Read(bytes) => bar.inc(bytes),
            Progress::Committing => {
                bar.set_style(ProgressStyle::with_template(WITHOUT_TOTAL).unwrap_or_else(|_| ProgressStyle::default_spinner()));
                bar.set_message("commits");
            }
        }
    }

    fn ended(&self, _answer: &RunAnswer) {
        let bar = self.current();
        bar.finish_and_clear();
        self.bars.remove(&bar);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_templates_of_the_bar_can_be_read() {
        for template in [READING, WITHOUT_TOTAL] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
