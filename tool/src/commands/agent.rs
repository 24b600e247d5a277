//! `agent`: shows what the agent of this host does, and locks its clients.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use comfy_table::Cell;
use jeton_agent_wire::status::{self, OfApplication, OfClient, PinState, Status};
use jeton_client::safe_text::shown;
use jeton_tool::{Cause, Error};

use super::out::{self, Form, Output, counted};

/// Show what the agent of this host does, and lock its clients. It answers root, and the
/// group of `jeton-agent --administrators`.
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
        #[command(flatten)]
        output: Output,
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

/// Returns a function for `map_err` that says what to do if no agent listens at this socket.
fn absent(socket: &Path) -> impl FnOnce(std::io::Error) -> Error {
    move |reason| match reason.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => Cause::NotFound.error(format!(
            "no agent listens at {}: `systemctl status jeton-agent.socket` says whether it is enabled",
            out::shown_path(socket)
        )),
        // The agent refuses with words of its own.
        ErrorKind::PermissionDenied if reason.raw_os_error().is_some() => Cause::NotPermitted.error(format!(
            "{}.admin: only root, and the group of --administrators, may ask the agent",
            out::shown_path(socket)
        )),
        _ => Error::io(socket)(reason),
    }
}

impl Agent {
    pub fn run(self) -> Result<(), Error> {
        let socket = self.socket.map_or_else(default_socket, Ok)?;
        let named = || absent(&socket);
        match self.what {
            What::Status { prometheus, output } => {
                if !prometheus && output.path().is_some() {
                    return Err(Error::Usage("--out needs --prometheus".to_owned()));
                }
                let status = status::status(&socket).map_err(named())?;
                if prometheus {
                    output.public(status.prometheus().as_bytes(), Form::Text)?;
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
    if applications.is_empty() {
        return "no application is connected".to_owned();
    }
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
    let Status {
        seconds,
        applications,
        connections,
        sessions,
        clients,
        tokens,
        requests,
        times,
        missing,
        ..
    } = status;
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
    for of in &status.directories {
        text += &format!("\n{} of {} free at {}", size(of.free), size(of.size), shown(&of.path));
    }
    for what in missing {
        text += &format!("\nnot in force for the processes of clients: {}", shown(what));
    }
    if !clients.is_empty() {
        let head = [
            "client",
            "user",
            "rule",
            "connections",
            "calls",
            "refused calls",
            "refused connections",
            "failed logins",
        ];
        let mut table = out::table(head);
        for client in clients {
            let OfClient { connections, calls, refused, refused_connections, failed_logins, .. } = *client;
            let counts = [connections, calls, refused, refused_connections, failed_logins];
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

/// Returns a number of bytes in GiB, with two digits or more.
fn size(bytes: u64) -> String {
    let value = bytes as f64 / f64::from(1 << 30);
    format!("{value:.*} GiB", usize::from(value < 10.0))
}

/// Returns what the counter of wrong PINs says.
fn said(pin: PinState) -> &'static str {
    match pin {
        PinState::Unset => "not set",
        PinState::Good => "ok",
        PinState::Wrong => "wrong PINs",
        PinState::LastTry => "one try left",
        PinState::Locked => "locked",
    }
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
