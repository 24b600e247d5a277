//! `acme`: lets the servers take turns, and prints the report.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use jeton_driver::about::About;
use jeton_driver::acme::{Clients, FIGURES, Figures, Setting};
use jeton_driver::algorithm::Algorithm;
use jeton_driver::{Error, Result};
use jeton_laboratory::{Table, median};
use jeton_peers::printed;

use super::modules::{self, terminal_columns};

/// Order certificates from ACME servers with many clients at once.
///
/// Each client has an account of its own. A measured order is: new order, challenge (http-01),
/// finalize, download. The client makes its key before, and verifies the chain afterwards. Every
/// combination of --clients and --key-type is a load. The servers take turns: in each round every
/// server has the same load once. The tables show medians of the rounds.
#[derive(Args)]
pub struct Acme {
    /// The servers: a name for the tables, and the URL of the directory.
    #[arg(required = true, value_name = "NAME=DIRECTORY", value_parser = server)]
    servers: Vec<(String, String)>,
    /// Files with the certificates to trust, in PEM: those of the CAs, and of the servers' HTTPS.
    #[arg(long, value_delimiter = ',', value_name = "FILE", required = true)]
    root: Vec<PathBuf>,
    /// Numbers of clients that order certificates at the same time.
    #[arg(long, value_delimiter = ',', default_value = "1,5,10,25,50", value_parser = clap::value_parser!(u64).range(1..=1024))]
    clients: Vec<u64>,
    /// Algorithms of the clients' keys: ecdsa-p256, ecdsa-p384, ed25519, ml-dsa-44, ml-dsa-65,
    /// ml-dsa-87, rsa2048, rsa3072, rsa4096, slh-dsa-sha2-128f. ec:p256 and rsa:2048 work too.
    #[arg(long, value_delimiter = ',', default_value = "ecdsa-p256")]
    key_type: Vec<String>,
    /// The number of certificates of a run.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
    requests: u64,
    /// The number of certificates that are ordered before each run and not measured.
    #[arg(long, default_value_t = 20)]
    warm_up: u64,
    /// No client begins another order after this number of seconds of a run.
    #[arg(long, default_value_t = 60.0, value_parser = modules::seconds)]
    max_seconds: f64,
    /// The number of rounds.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// The port of 127.0.0.1 where the servers ask for the challenges.
    #[arg(long, default_value_t = 80)]
    http_port: u16,
}

struct Report {
    about: About,
    rows: Vec<Row>,
}

struct Row {
    names: [String; 3],
    runs: Vec<Figures>,
    failures: Vec<String>,
}

impl Acme {
    /// Runs the command. Fails if an order failed.
    pub fn run(self) -> Result<ExitCode> {
        let read = |path: &PathBuf| std::fs::read(path).map_err(Error::io(path));
        let trusted = self.root.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let algorithms = self.key_type.iter().map(|name| Algorithm::named(name));
        let algorithms = algorithms.collect::<Result<Vec<_>, _>>()?;
        let setting = Setting::new(&trusted, self.http_port)?;
        let mut report = Report { about: About::this(), rows: Vec::new() };
        for algorithm in algorithms {
            for clients in &self.clients {
                report.rows.extend(self.load(&setting, algorithm, *clients));
            }
        }
        report.about.end();
        printed(report.print())?;
        Ok(modules::status(report.rows.iter().any(|row| !row.failures.is_empty())))
    }

    fn load(&self, setting: &Setting, algorithm: &Algorithm, clients: u64) -> Vec<Row> {
        let row = |(server, _): &(String, String)| {
            let names = [algorithm.name.to_owned(), clients.to_string(), server.clone()];
            Row { names, runs: Vec::new(), failures: Vec::new() }
        };
        let mut rows: Vec<_> = self.servers.iter().map(row).collect();
        let limit = Duration::from_secs_f64(self.max_seconds);
        for _ in 0..self.rounds {
            for ((_, directory), row) in self.servers.iter().zip(&mut rows) {
                // The option has a limit, so the number fits.
                let run = Clients::register(setting, directory, clients as usize).and_then(|clients| {
                    if self.warm_up > 0 {
                        clients.run(algorithm, self.warm_up, limit)?;
                    }
                    clients.run(algorithm, self.requests, limit)
                });
                let (figures, error) = match run {
                    Ok((figures, error)) => (Some(figures), error),
                    Err(error) => (None, Some(error)),
                };
                row.runs.extend(figures);
                row.failures.extend(error.map(|error| error.to_string()));
            }
        }
        rows
    }
}

impl Report {
    fn print(&self) -> io::Result<()> {
        let mut out = io::stdout().lock();
        let [start, end] = &self.about.load;
        writeln!(out, "{}, load average {start} at the start, {end} at the end", self.about.machine)?;
        let mut table = Table::new(3, ["keys", "clients", "server"].into_iter().chain(FIGURES));
        for row in self.rows.iter().filter(|row| !row.runs.is_empty()) {
            let medians = (0..FIGURES.len()).map(|at| median(row.runs.iter().map(|run| run[at]).collect()));
            table.add(row.names.iter().cloned().chain(medians.map(|value| format!("{value:.1}"))));
        }
        writeln!(out, "{}", table.terminal(terminal_columns()))?;
        for (row, failure) in self.rows.iter().flat_map(|row| row.failures.iter().map(move |one| (row, one)))
        {
            writeln!(out, "{}: {failure}", row.names.join(", "))?;
        }
        Ok(())
    }
}

fn server(text: &str) -> Result<(String, String), String> {
    let (name, url) = text.split_once('=').ok_or("it must be NAME=DIRECTORY")?;
    Ok((name.to_owned(), url.to_owned()))
}
