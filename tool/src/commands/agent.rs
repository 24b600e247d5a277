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
        /// The socket of the agent.
        #[arg(long, value_name = "PATH", default_value = "/run/jeton/agent.socket")]
        socket: PathBuf,
        /// Write the text format of Prometheus.
        #[arg(long, conflicts_with = "json")]
        prometheus: bool,
    },
}

impl Agent {
    /// Runs the command.
    pub fn run(self) -> Result<ExitCode, Error> {
        let What::Status { socket, prometheus } = self.what;
        let status = channel::status(&socket).map_err(Error::io(&socket))?;
        if prometheus {
            out::line(status.prometheus().trim_end())?;
        } else {
            out::result(&status, text(&status))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn text(status: &Status) -> String {
    let Status { seconds, applications, connections, sessions, clients, requests, times } = status;
    let rate = *requests as f64 / (*seconds).max(1) as f64;
    let mut text = format!(
        "{applications} applications, {connections} connections, {sessions} sessions\n\
         {requests} requests in {seconds} s, {rate:.1} in a second"
    );
    for time in times {
        if let Some(seconds) = time.seconds {
            text += &format!("\n{} % took at most {:.1} µs", time.part * 100.0, seconds * 1e6);
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
