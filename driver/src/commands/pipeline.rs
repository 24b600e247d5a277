//! `pipeline`: reads the options, starts a child process for each module, lets the modules take
//! turns, and prints the report.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use jeton_driver::about::write_json;
use jeton_driver::algorithm::{ALGORITHMS, Profile};
use jeton_driver::pipeline::{Database, Plan, STAGES};
use jeton_driver::report::{self, Report, Settings};
use jeton_driver::{Error, Result};
use jeton_laboratory::distinct;
use jeton_peers::printed;

use super::modules::{self, Modules, Shared, available, open_output, terminal_columns};

/// Run the X.509 PKI pipeline through modules side by side.
///
/// The modules take turns: in each round every module runs the same batch once, and so does the
/// baseline. A module that has enough runs of a size (--min-seconds) skips the remaining rounds.
/// The times in the tables are medians. A first run of size 4 warms up and is not counted.
#[derive(Args)]
pub struct Pipeline {
    #[command(flatten)]
    modules: Modules,
    /// Algorithms of the CA's key: ecdsa-p256, ecdsa-p384, ed25519, ml-dsa-44, ml-dsa-65,
    /// ml-dsa-87, rsa2048, rsa3072, rsa4096, slh-dsa-sha2-128f, or all. After a slash: another
    /// algorithm for the subscribers' keys, as in rsa4096/ecdsa-p256.
    #[arg(long, value_delimiter = ',', default_value = "ecdsa-p256")]
    ca_key_algo: Vec<String>,
    /// Batch sizes.
    #[arg(long, value_delimiter = ',', default_value = "1,64,1024", value_parser = clap::value_parser!(u64).range(1..=MAX_SIZE))]
    sizes: Vec<u64>,
    /// The least time of the runs of a module with a size, in seconds. Each size runs six times, or
    /// three to five times if the runs take 30 times this time (at least 2 s, at most 15 s). Then
    /// it runs up to 100 times, until the runs have taken 8 times this time or 4 s.
    #[arg(long, default_value_t = 0.5, value_parser = modules::seconds)]
    min_seconds: f64,
    /// The number of threads of the parallel stages. Default: the number of cores less one,
    /// and at least 1. The other core is left for other programs.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=MAX_THREADS))]
    threads: Option<u64>,
    /// Keep the database in this file.
    #[arg(long)]
    db: Option<PathBuf>,
    /// Write the report to this file, as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Write each run to this file as it is measured: an SQLite database, which later measurements
    /// may share. `jeton-driver compare` compares two of these files. `jeton-driver report` makes a
    /// page from one of them.
    #[arg(long)]
    results: Option<PathBuf>,
    /// Print every column: also the items per second, and the two times of each ratio. Without it,
    /// the tables fit the terminal, or 100 columns.
    #[arg(long)]
    wide: bool,
    /// RSA key pairs of subscribers that a batch generates and reuses. 0 generates one for each
    /// certificate.
    #[arg(long, default_value_t = 16)]
    rsa_key_pool: u64,
}

const MAX_SIZE: u64 = 1 << 20;
const MAX_THREADS: u64 = 1024;
/// The width of the tables in a file or a pipe.
const COLUMNS: usize = 100;

impl Pipeline {
    /// Runs the command. Fails if a module failed.
    pub fn run(self) -> Result<ExitCode> {
        let algorithms = self.algorithms()?;
        // If the stages use every core, another program interrupts some of them, and a ratio says
        // how the system divides the cores.
        let most = available().saturating_sub(1).max(1);
        let threads = self.threads.map_or(most, |threads| threads as usize);
        let mut report = Report::new(Settings {
            stages: STAGES.iter().map(|row| row.name).collect(),
            algorithms,
            sizes: self.sizes.clone(),
            threads,
            rsa_key_pool: self.rsa_key_pool,
        });
        let (selections, absent) = self.modules.selections()?;
        report.absent = absent;
        let directory = tempfile::tempdir().map_err(Error::io("a temporary directory"))?;
        if let Some(path) = &self.db {
            Database::open(path)?;
        }
        let json = open_output(self.json.as_deref())?;
        let shared = Shared {
            threads,
            rsa_key_pool: self.rsa_key_pool,
            database: self.database(directory.path()),
            results: self.results.as_deref(),
        };
        let plan = Plan::batches(&report.settings.algorithms, &self.sizes, self.min_seconds);
        let results = self.modules.measure(&mut report, selections, &plan, &shared, directory.path())?;
        if let Some(results) = &results {
            let mut sizes = Database::open(&shared.database)?.document_sizes()?;
            let settings = &report.settings;
            sizes.retain(|one| {
                settings.sizes.contains(&one.size) && settings.algorithms.contains(&one.algorithm)
            });
            results.add_documents(&sizes)?;
        }
        let columns = (!self.wide).then(|| terminal_columns().unwrap_or(COLUMNS));
        printed(report::print(&report, columns, &mut io::stdout().lock()))?;
        if let Some((file, path)) = &json {
            write_json(&report, file, path)?;
        }
        Ok(modules::status(report.failed()))
    }

    /// Returns the path of the database. `shared` is the directory of the run.
    fn database(&self, shared: &Path) -> PathBuf {
        self.db.clone().unwrap_or_else(|| shared.join("pipeline.db"))
    }

    fn algorithms(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for name in &self.ca_key_algo {
            match name.as_str() {
                "all" => names.extend(ALGORITHMS.iter().map(|one| one.name.to_owned())),
                name => names.push(Profile::named(name)?.name()),
            }
        }
        Ok(distinct(names))
    }
}
