//! `agent`: shows what the agent of this host does.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use comfy_table::Cell;
use jeton_agent_wire::{Status, channel};
use jeton_client::text::shown;
use jeton_tool::Error;

use super::out;

/// Show what the agent of this host does.
#[derive(Args)]
pub struct Agent {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Show the applications, sessions, calls and refused calls, and how long requests take.
    ///
    /// The agent answers root and its own user. The numbers of calls begin with its start.
    Status {
        /// The socket of the agent. By default the first one that JETON_AGENT names, or
        /// /run/jeton/agent.socket.
        #[arg(long, value_name = "PATH")]
        socket: Option<PathBuf>,
        /// Write the text format of Prometheus.
        #[arg(long, conflicts_with = "json")]
        prometheus: bool,
    },
}

impl Agent {
    /// Runs the command.
    pub fn run(self) -> Result<ExitCode, Error> {
        let What::Status { socket, prometheus } = self.what;
        let socket = socket.map_or_else(default_socket, Ok)?;
        let status = channel::status(&socket).map_err(Error::io(&socket))?;
        if prometheus {
            out::line(status.prometheus().trim_end())?;
        } else {
            out::result(&status, text(&status))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns the first socket that `JETON_AGENT` names, as a client reads it, or that of the package.
fn default_socket() -> Result<PathBuf, Error> {
    const PACKAGED: &str = "unix:/run/jeton/agent.socket";
    let named = std::env::var("JETON_AGENT").ok().filter(|named| !named.is_empty());
    let named = named.as_deref().unwrap_or(PACKAGED);
    let socket = named.split(',').find_map(|one| one.trim().strip_prefix("unix:"));
    socket.map(PathBuf::from).ok_or_else(|| {
        Error::Usage(
            "JETON_AGENT names no socket of this host (unix:/PATH), and --socket is absent".to_owned(),
        )
    })
}

fn text(status: &Status) -> String {
    let Status { seconds, applications, connections, sessions, clients, requests, times, tokens: _ } = status;
    let seconds = (*seconds).max(1) as f64;
    let rate = *requests as f64 / seconds;
    let mut text = format!(
        "{}, {}, {}\n{} in {}, {rate:.1} in a second",
        counted(*applications, "application"),
        counted(*connections, "connection"),
        counted(*sessions, "session"),
        counted(*requests, "request"),
        time(seconds),
    );
    for quantile in times {
        if let Some(seconds) = quantile.seconds {
            text += &format!("\n{} % took at most {}", quantile.part * 100.0, time(seconds));
        }
    }
    if !clients.is_empty() {
        let mut table = out::table(["client", "connections", "calls", "refused"]);
        for client in clients {
            let numbers = [client.connections, client.calls, client.refused].map(out::number);
            table.add_row([Cell::new(shown(&client.client))].into_iter().chain(numbers));
        }
        text += &format!("\n{table}");
    }
    text
}

/// Returns a number with its noun, for example "1 session" or "2 sessions".
fn counted(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Returns a time with two digits or more, in the largest unit of which it has at least one.
fn time(seconds: f64) -> String {
    const UNITS: [(f64, &str); 5] =
        [(86_400.0, "days"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms")];
    let unit = UNITS.into_iter().find(|(size, _)| seconds >= *size);
    let (size, name) = unit.unwrap_or((1e-6, "µs"));
    let value = seconds / size;
    format!("{value:.*} {name}", usize::from(value < 10.0))
}
