//! `tls`: reads the options, starts the process of the module, and prints the report.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use jeton_driver::about::write_json;
use jeton_driver::pipeline::{Job, ModuleDescription, Outcome, Participant, Target, Worker};
use jeton_driver::report::Report;
use jeton_driver::results::Results;
use jeton_driver::selection::Selection;
use jeton_driver::tls::{
    CaseTurn, Exchange, KeyKind, Options, RUSTLS, Resumption, Settings, TlsReport, TlsVersion, print,
};
use jeton_driver::{Error, Result};
use jeton_laboratory::distinct;
use jeton_peers::{Known, printed};

use super::modules::{self, Environment, TokenOptions, available, measure_all, open_output};

/// Measure TLS handshakes of a server whose key is in a token.
///
/// A client and a server of rustls exchange buffers in one process. In each round the server with
/// its key in memory and the server with its key in the token make the same number of handshakes.
/// The tables show medians. A ratio compares the two servers in the same round.
#[derive(Args)]
pub struct Tls {
    /// The module: jeton, jeton-rc (Jeton with RustCrypto), softhsm2, nss, kryoptic, craton,
    /// in-process, or the path of a shared object. in-process compares two keys in memory, which
    /// shows how exact the measurement is.
    #[arg(long, default_value = "jeton")]
    module: String,
    /// Types of the server's key.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "rsa2048,p256,p384,ed25519,ml-dsa-65")]
    keys: Vec<KeyKind>,
    /// Versions of TLS. ML-DSA and ML-KEM exist in 1.3 only.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "1.2,1.3")]
    versions: Vec<TlsVersion>,
    /// Key exchanges.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "x25519,x25519mlkem768")]
    exchanges: Vec<Exchange>,
    /// Types of handshakes.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "full,resumed")]
    handshakes: Vec<Resumption>,
    /// Numbers of threads. Default: 1, the number of cores, and twice the number of cores.
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=MAX_THREADS))]
    threads: Vec<u64>,
    /// Measure each combination of these options for at least this number of seconds with the key
    /// in memory, and as long with the key in the token.
    #[arg(long, default_value_t = 0.3, value_parser = modules::seconds)]
    min_seconds: f64,
    /// Write the report to this file, as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Write each round to this file as it is measured: an SQLite database, which later
    /// measurements may share. `jeton-driver report` writes a page of the newest measurement.
    #[arg(long)]
    results: Option<PathBuf>,
    #[command(flatten)]
    token: TokenOptions,
}

const MAX_THREADS: u64 = 1024;

impl Tls {
    pub fn run(self) -> Result<ExitCode> {
        let options = self.options();
        let selection = Selection::parse(&self.module)?;
        let json = open_output(self.json.as_deref())?;
        let mut report = Report::new(Settings { rustls: RUSTLS });
        let results = self.results.as_deref().map(|path| store(path, &report, &options)).transpose()?;
        let directory = tempfile::tempdir().map_err(Error::io("a temporary directory"))?;
        let (target, environment) = self.target(&selection, directory.path())?;
        modules::catch_interrupts();
        let participant = self.start(&selection, target, &environment, &options)?;
        let plan = options.plan();
        measure_all(&mut report, vec![participant], &plan, results)?;
        if let Some(failure) = report.modules.iter().find_map(|module| module.failures.first()) {
            return Err(Error::Failed(failure.clone()));
        }
        printed(print(&report, &mut io::stdout().lock()))?;
        if let Some((file, path)) = &json {
            write_json(&report, file, path)?;
        }
        Ok(modules::status(false))
    }

    fn options(&self) -> Options {
        let cores = available();
        let mut threads = match self.threads.as_slice() {
            [] => vec![1, cores, 2 * cores],
            // Each value is at most MAX_THREADS, so it fits.
            given => given.iter().map(|one| *one as usize).collect(),
        };
        threads.sort_unstable();
        threads.dedup();
        Options {
            keys: distinct(self.keys.iter().copied()),
            versions: distinct(self.versions.iter().copied()),
            exchanges: distinct(self.exchanges.iter().copied()),
            handshakes: distinct(self.handshakes.iter().copied()),
            threads,
            min_seconds: self.min_seconds,
        }
    }

    /// Starts the process of the module.
    fn start(
        &self,
        selection: &Selection,
        target: Target,
        environment: &Environment,
        options: &Options,
    ) -> Result<Participant<Worker<CaseTurn>, CaseTurn>> {
        let in_memory = matches!(target, Target::InProcess);
        let job = Job {
            name: selection.name(),
            target,
            threads: options.most_threads(),
            rsa_key_pool: 0,
            database: PathBuf::new(),
            asynchronous: false,
        };
        let (worker, description) =
            Worker::start(&job, environment, jeton_child::UNLIMITED)?.map_err(Error::Failed)?;
        let description = Some(description).filter(|_| !in_memory);
        Ok(Participant { runner: Some(worker), outcome: Outcome::of(job.name, description) })
    }

    /// Returns the module with a fresh token or with the token of the user, and the environment of
    /// its process.
    fn target(&self, selection: &Selection, directory: &Path) -> Result<(Target, Environment)> {
        let existing = |library: PathBuf| {
            let pin = self.token.pin(&library)?;
            Ok((self.token.existing(library, &pin), Vec::new()))
        };
        match selection {
            Selection::InProcess => Ok((Target::InProcess, Vec::new())),
            Selection::Path(library) => existing(library.clone()),
            Selection::OpenSsl => Err(Error::Usage("openssl is not a PKCS#11 module".to_owned())),
            Selection::Asynchronous => Err(Error::Usage("TLS has no asynchronous signatures".to_owned())),
            Selection::Known(_) | Selection::RustCrypto => {
                let known = if let Selection::Known(known) = selection { *known } else { Known::Jeton };
                let library = jeton_peers::library_of(known.name())?;
                match self.token.token_label {
                    Some(_) => existing(library),
                    None => self.token.fresh(selection, library, directory),
                }
            }
        }
    }
}

/// Begins a measurement in the result store at `path`, and describes the TLS library there.
fn store(path: &Path, report: &TlsReport, options: &Options) -> Result<Results> {
    let results = Results::begin::<CaseTurn>(path, &report.about, options.most_threads(), 0)?;
    let library = ModuleDescription {
        description: "rustls".to_owned(),
        manufacturer: "with aws-lc-rs".to_owned(),
        version: report.settings.rustls.to_owned(),
        cryptoki: "-".to_owned(),
        library: None,
    };
    results.describe("TLS library", &library)?;
    Ok(results)
}
