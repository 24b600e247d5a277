//! `agent`: shows what the agent of this host does, and locks its clients.

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use comfy_table::Cell;
use jeton_agent_wire::status::{self, OfApplication, PinState, Status};
use jeton_client::text::shown;
use jeton_tool::Error;

use super::out;

/// Show what the agent of this host does, and lock its clients. It answers root and its own user.
#[derive(Args)]
pub struct Agent {
    /// The socket of the agent. By default the first one that JETON_AGENT names, or
    /// /run/jeton/agent.socket.
    #[arg(long, value_name = "PATH", global = true)]
    socket: Option<PathBuf>,
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Show the clients, their calls and refused calls, the PINs of the tokens, and how long
    /// requests take.
    ///
    /// The numbers of calls begin with the start of the agent.
    Status {
        /// Write the text format of Prometheus.
        #[arg(long, conflicts_with = "json")]
        prometheus: bool,
    },
    /// Show the applications: the client, the process, the sessions, and since when.
    List,
    /// End the connections of a client, so that it has to log in with its PIN again.
    ///
    /// Its sessions end, and no ticket logs it in again, also after a restart of the agent. It may
    /// connect again: the rules decide that. A token that the agent unlocks itself by a rule is
    /// unlocked again. Other agents with the same tokens are not asked.
    Lock {
        /// The client, as `jeton agent list` shows it, for example "uid 33".
        #[arg(required_unless_present = "all", value_parser = NonEmptyStringValueParser::new())]
        client: Option<String>,
        /// Lock all clients.
        #[arg(long, conflicts_with = "client")]
        all: bool,
    },
}

impl Agent {
    pub fn run(self) -> Result<(), Error> {
        let socket = self.socket.map_or_else(default_socket, Ok)?;
        let named = || Error::io(&socket);
        match self.what {
            What::Status { prometheus } => {
                let status = status::status(&socket).map_err(named())?;
                if prometheus {
                    out::line(status.prometheus().trim_end())?;
                } else {
                    out::result(&status, text(&status))?;
                }
            }
            What::List => {
                let applications = status::applications(&socket).map_err(named())?;
                out::result(&applications, list(&applications))?;
            }
            What::Lock { client, all: _ } => {
                let ended = status::lock(&socket, client.as_deref()).map_err(named())?;
                let Some(ended) = ended else {
                    let client = client.unwrap_or_default();
                    let text = format!(
                        "no client has the name {client:?} since the agent started: only tickets of this name are void"
                    );
                    return Err(Error::Usage(text));
                };
                out::result(&ended, format!("{} ended", counted(ended, "connection")))?;
            }
        }
        Ok(())
    }
}

fn list(applications: &[OfApplication]) -> String {
    let mut table = out::table(["client", "user", "process", "sessions", "connections", "for"]);
    for application in applications {
        let process = application.process.map_or_else(String::new, |process| process.to_string());
        table.add_row([
            Cell::new(shown(&application.client)),
            Cell::new(shown(application.user.as_deref().unwrap_or_default())),
            Cell::new(process),
            out::number(application.sessions),
            out::number(application.connections),
            Cell::new(time(application.seconds.max(1) as f64)),
        ]);
    }
    table.to_string()
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
    let Status { seconds, applications, connections, sessions, clients, tokens, requests, times } = status;
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
        let head = ["client", "user", "rule", "connections", "calls", "refused calls", "refused connections"];
        let mut table = out::table(head);
        for client in clients {
            let counts = [client.connections, client.calls, client.refused, client.refused_connections];
            let row = [
                Cell::new(shown(&client.client)),
                Cell::new(shown(client.user.as_deref().unwrap_or_default())),
                Cell::new(client.rule.map_or_else(String::new, |rule| rule.to_string())),
            ];
            table.add_row(row.into_iter().chain(counts.map(out::number)));
        }
        text += &format!("\n{table}");
    }
    if !tokens.is_empty() {
        let mut table = out::table(["token", "serial number", "PIN", "SO PIN"]);
        for token in tokens {
            let texts = [&token.label, &token.serial].map(|text| Cell::new(shown(text)));
            table.add_row(texts.into_iter().chain([token.pin, token.so_pin].map(|pin| Cell::new(said(pin)))));
        }
        text += &format!("\n{table}");
    }
    text
}

/// Returns what the counter of wrong PINs says.
fn said(pin: PinState) -> &'static str {
    match pin {
        PinState::Unset => "not set",
        PinState::Good => "",
        PinState::Wrong => "wrong PINs",
        PinState::LastTry => "one try left",
        PinState::Locked => "locked",
    }
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
