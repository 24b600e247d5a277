//! `issue`: reads the options, starts a child process for each module, lets the modules take turns,
//! and prints the report.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use jeton_driver::Error;
use jeton_driver::about::write_json;
use jeton_driver::algorithm::Algorithm;
use jeton_driver::issuance::{
    IssueReport, Load, LoadTurn, Options, Settings, Storage, TablePlan, distinct_loads, document_tables,
    ordinary_tables,
};
use jeton_driver::pipeline::{Group, Plan};
use jeton_driver::selection::Selection;
use jeton_peers::Known;

use super::modules::{self, Modules, Shared, open_output, terminal_columns};
use super::printing;

/// The least number of rounds of a load, so that one slow run does not change the median much.
const MIN_RUNS: usize = 3;
/// Fewer than [`MIN_RUNS`] rounds are enough if the runs of a module have taken this long in total.
const ENOUGH: Duration = Duration::from_secs(4);

/// Issue certificates to many clients at once, through modules side by side.
///
/// Each client makes a key and a certificate request. The CA verifies the request, applies a
/// policy, signs through the module, stores the certificate in SQLite and returns it. The client
/// verifies it. Every combination of --clients, --key-type, --ca-key-type, --pool and --database is
/// a load. Without --module, jeton-rc is measured too. The modules take turns: in each round every
/// module runs the same load once, and so does the baseline. A load is repeated until each module
/// has run for --min-seconds, and has run three times or for four seconds in total. A module that
/// reaches this earlier skips the remaining rounds. The tables show medians.
#[derive(Args)]
pub struct Issue {
    #[command(flatten)]
    modules: Modules,
    /// Numbers of clients that order certificates at the same time.
    #[arg(long, value_delimiter = ',', default_value = "1,5,10,25,50", value_parser = clap::value_parser!(u64).range(1..=MAX_CLIENTS))]
    clients: Vec<u64>,
    /// Algorithms of the clients' keys: ecdsa-p256, ecdsa-p384, ed25519, ml-dsa-44, ml-dsa-65,
    /// ml-dsa-87, rsa2048, rsa3072, rsa4096, slh-dsa-sha2-128f. ec:p256 and rsa:2048 work too.
    #[arg(long, value_delimiter = ',', default_value = "ecdsa-p256")]
    key_type: Vec<String>,
    /// Algorithms of the CA's key, with the same names.
    #[arg(long, value_delimiter = ',', default_value = "ecdsa-p256")]
    ca_key_type: Vec<String>,
    /// Numbers of connections to the database.
    #[arg(long, value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u64).range(1..=MAX_POOL))]
    pool: Vec<u64>,
    /// Where the database is: memory, file (in the temporary directory), or a directory. A database
    /// in memory has one connection.
    #[arg(long, value_delimiter = ',', default_value = "file")]
    database: Vec<String>,
    /// The number of certificates of a run.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=MAX_REQUESTS))]
    requests: u64,
    /// The number of certificates that are issued before each run and not measured.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(0..=MAX_REQUESTS))]
    warm_up: u64,
    /// No client begins another certificate after this number of seconds of a run.
    #[arg(long, default_value_t = 4.0, value_parser = modules::seconds)]
    max_seconds: f64,
    /// Repeat each load for at least this number of seconds.
    #[arg(long, default_value_t = 0.0, value_parser = modules::seconds)]
    min_seconds: f64,
    /// Measure every table of the source document 003 (docs/benchmarks/seeds.md) instead of the
    /// loads of these options.
    #[arg(long, conflicts_with_all = ["clients", "key_type", "ca_key_type", "pool", "database"])]
    all_tables: bool,
    /// Write the report to this file, as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Write each run to this file as it is measured: an SQLite database, which later measurements
    /// may share. `jeton-driver report` writes a page of the newest measurement.
    #[arg(long)]
    results: Option<PathBuf>,
    /// Write every measured certificate and the CA's below this directory.
    #[arg(long)]
    keep: Option<PathBuf>,
}

const MAX_CLIENTS: u64 = 1024;
const MAX_POOL: u64 = 256;
const MAX_REQUESTS: u64 = 1 << 20;

impl Issue {
    /// Runs the command. Fails if a module failed.
    pub fn run(self) -> Result<ExitCode, Error> {
        let tables = self.tables()?;
        let loads = distinct_loads(&tables);
        let mut report = IssueReport::new(Settings { requests: self.requests, tables: Vec::new() });
        let (selections, absent) = self.selections()?;
        report.absent = absent;
        let directory = tempfile::tempdir().map_err(Error::io("a temporary directory"))?;
        if let Some(path) = &self.keep {
            std::fs::create_dir_all(path).map_err(Error::io(path))?;
        }
        let json = open_output(self.json.as_deref())?;
        let shared = Shared {
            threads: loads.iter().map(|load| load.clients).max().unwrap_or_default(),
            rsa_key_pool: 0,
            database: directory.path().to_owned(),
            keep: self.keep.as_deref(),
            results: self.results.as_deref(),
        };
        let plan = self.plan(loads);
        self.modules.measure(&mut report, selections, &plan, &shared, directory.path())?;
        report.make_tables(&tables);
        report.print(terminal_columns(), &mut io::stdout().lock()).map_err(printing)?;
        if let Some((file, path)) = &json {
            write_json(&report, file, path)?;
        }
        Ok(modules::status(report.failed()))
    }

    fn tables(&self) -> Result<Vec<TablePlan>, Error> {
        if self.all_tables {
            return Ok(document_tables());
        }
        let algorithms = |names: &[String]| {
            names.iter().map(|name| Ok(Algorithm::named(name)?.name.to_owned())).collect::<Result<_, Error>>()
        };
        // The options have limits, so every value fits.
        let counts = |all: &[u64]| all.iter().map(|one| *one as usize).collect();
        let storages: Vec<_> = self.database.iter().map(|text| Storage::parse(text)).collect();
        for storage in &storages {
            if let Storage::Directory(path) = storage
                && !path.is_dir()
            {
                let text = format!("--database: {} is neither memory, file nor a directory", path.display());
                return Err(Error::Usage(text));
            }
        }
        Ok(ordinary_tables(&Options {
            clients: counts(&self.clients),
            key_types: algorithms(&self.key_type)?,
            ca_key_types: algorithms(&self.ca_key_type)?,
            pools: counts(&self.pool),
            storages,
        }))
    }

    /// Returns the modules, and the known modules that are not installed. Without --module, the
    /// first list has Jeton with each backend.
    fn selections(&self) -> Result<(Vec<Selection>, Vec<String>), Error> {
        let (mut selections, absent) = self.modules.selections()?;
        if !self.modules.is_named() && cfg!(feature = "rustcrypto") {
            let own = selections.iter().position(|one| *one == Selection::Known(Known::Jeton));
            if let Some(own) = own {
                selections.insert(own + 1, Selection::RustCrypto);
            }
        }
        Ok((selections, absent))
    }

    /// Groups the loads by the algorithm of the CA's key. A module that lacks the algorithm skips
    /// the group.
    fn plan(&self, loads: Vec<Load>) -> Plan<LoadTurn> {
        let (requests, warm_up, max_seconds) = (self.requests, self.warm_up, self.max_seconds);
        let turn = |load: Load| LoadTurn { load, requests, warm_up, max_seconds, round: 0 };
        let mut groups: Vec<Group<LoadTurn>> = Vec::new();
        for load in loads {
            let same = groups.iter_mut().find(|group| group.warm_up.load.ca_key_type == load.ca_key_type);
            if let Some(group) = same {
                group.work.push(turn(load));
                continue;
            }
            let first = Load { clients: 1, key_type: "ecdsa-p256".to_owned(), ..load.clone() };
            let warm_up = LoadTurn { requests: 1, warm_up: 1, ..turn(first) };
            groups.push(Group { warm_up, work: vec![turn(load)] });
        }
        Plan {
            groups,
            min_seconds: self.min_seconds,
            fewest_runs: 1,
            min_runs: MIN_RUNS,
            enough: ENOUGH,
            steady_runs: 0,
        }
    }
}
