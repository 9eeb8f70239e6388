//! Ctrl-C and a polite kill: the first asks for an orderly end, the second does not wait for it.

use std::io;

use tokio::signal::unix::{self, SignalKind};

/// The two signals that ask a command to end.
#[derive(Debug)]
pub(super) struct Signals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
}

impl Signals {
    /// Listens from now on; the signals end the process no more by themselves.
    pub(super) fn listen() -> io::Result<Signals> {
        Ok(Signals { interrupt: unix::signal(SignalKind::interrupt())?, terminate: unix::signal(SignalKind::terminate())? })
    }

    /// The exit code of a process that the next of them ends: 130 for SIGINT, 143 for SIGTERM.
    pub(super) async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => 130,
            _ = self.terminate.recv() => 143,
        }
    }
}
