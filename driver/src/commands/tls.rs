//! `tls`: reads the options, starts the process of the module, and prints the report.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use jeton_child::{Child, Silence};
use jeton_driver::Error;
use jeton_driver::about::write_json;
use jeton_driver::page::{self, Page};
use jeton_driver::pipeline::{Job, ModuleDescription, Outcome, Participant, Target, Worker};
use jeton_driver::report::Report;
use jeton_driver::results::Results;
use jeton_driver::role::Role;
use jeton_driver::selection::Selection;
use jeton_driver::tls::{
    CaseTurn, Exchange, KeyKind, Options, RUSTLS, Resumption, Serve, Settings, TlsReport, TlsVersion, print,
};
use jeton_laboratory::distinct;
use jeton_peers::Known;

use super::modules::{
    self, Environment, INTERRUPTED_STATUS, TokenOptions, available, measure_all, open_output,
};
use super::printing;

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
    /// Write a page with tables and plots of the latencies to this file, as HTML.
    #[arg(long)]
    html: Option<PathBuf>,
    /// Write each round to this file as it is measured: an SQLite database, which later
    /// measurements may share. `jeton-driver report` writes a page of the newest measurement.
    #[arg(long, conflicts_with = "serve")]
    results: Option<PathBuf>,
    #[command(flatten)]
    token: TokenOptions,
    /// Serve on this address instead of measuring, for example 127.0.0.1:4433. An HTTP request gets
    /// a text with the version of TLS, the cipher suite and the key exchange.
    #[arg(long, value_name = "ADDRESS")]
    serve: Option<SocketAddr>,
    /// Serve with the existing key that has this label, in the token of --token-label. Without this
    /// option, the server makes a key of each type in --keys.
    #[arg(long, value_name = "LABEL", requires_all = ["serve", "chain"])]
    key_label: Option<String>,
    /// The file with the certificate chain of the key of --key-label, in PEM.
    #[arg(long, value_name = "FILE", requires = "key_label")]
    chain: Option<PathBuf>,
    /// Write the certificates of the server to this file, in PEM.
    #[arg(long, value_name = "FILE", requires = "serve")]
    certificates: Option<PathBuf>,
    /// End the server after this number of connections.
    #[arg(long, value_name = "NUMBER", requires = "serve")]
    connections: Option<u64>,
}

const MAX_THREADS: u64 = 1024;

impl Tls {
    pub fn run(self) -> Result<ExitCode, Error> {
        let options = self.options();
        let selection = Selection::parse(&self.module)?;
        let json = open_output(self.json.as_deref())?;
        let html = open_output(self.html.as_deref())?;
        let mut report = Report::new(Settings { rustls: RUSTLS });
        let results = self.results.as_deref().map(|path| store(path, &report, &options)).transpose()?;
        let directory = tempfile::tempdir().map_err(Error::io("a temporary directory"))?;
        let (target, environment) = self.target(&selection, directory.path())?;
        if let Some(address) = self.serve {
            // This handler ends the process, so it also removes the temporary directory.
            let path = directory.path().to_owned();
            let _ = ctrlc::set_handler(move || {
                let _ = std::fs::remove_dir_all(&path);
                std::process::exit(INTERRUPTED_STATUS.into());
            });
            let existing = self.key_label.zip(self.chain);
            let (certificates, connections) = (self.certificates, self.connections);
            let work = Serve { target, address, keys: options.keys, existing, certificates, connections };
            return serve(&work, &environment);
        }
        modules::catch_interrupts();
        let participant = self.start(&selection, target, &environment, &options)?;
        let plan = options.plan();
        measure_all(&mut report, vec![participant], &plan, results)?;
        if let Some(failure) = report.modules.iter().find_map(|module| module.failures.first()) {
            return Err(Error::Failed(failure.clone()));
        }
        print(&report, &mut io::stdout().lock()).map_err(printing)?;
        if let Some((file, path)) = &json {
            write_json(&report, file, path)?;
        }
        if let Some((mut file, path)) = html {
            let text = page::html(&Page::of_tls(&report)?);
            file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(Error::io(path))?;
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
    ) -> Result<Participant<Worker<CaseTurn>, CaseTurn>, Error> {
        let in_memory = matches!(target, Target::InProcess);
        let job = Job {
            name: selection.name(),
            target,
            threads: options.most_threads(),
            rsa_key_pool: 0,
            database: PathBuf::new(),
            keep: None,
        };
        let (worker, description) =
            Worker::start(&job, environment, jeton_child::UNLIMITED)?.map_err(Error::Failed)?;
        let description = Some(description).filter(|_| !in_memory);
        Ok(Participant { runner: Some(worker), outcome: Outcome::of(job.name, description) })
    }

    /// Returns the module with a fresh token or with the token of the user, and the environment of
    /// its process.
    fn target(&self, selection: &Selection, directory: &Path) -> Result<(Target, Environment), Error> {
        let existing = |library: PathBuf| {
            let pin = self.token.pin(&library)?;
            Ok((self.token.existing(library, &pin), Vec::new()))
        };
        match selection {
            Selection::InProcess => Ok((Target::InProcess, Vec::new())),
            Selection::Path(library) => existing(library.clone()),
            Selection::OpenSsl => Err(Error::Usage("openssl is not a PKCS#11 module".to_owned())),
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
fn store(path: &Path, report: &TlsReport, options: &Options) -> Result<Results, Error> {
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

/// Serves in a process of its own, whose environment chooses the token. Shows its lines to the
/// user.
fn serve(work: &Serve, environment: &Environment) -> Result<ExitCode, Error> {
    let mut command = jeton_child::of_role(&Role::Serve);
    let child = Child::start(command.envs(environment.iter().cloned()));
    let mut child = child.map_err(Error::io("the driver"))?;
    child.tell(work);
    loop {
        match child.hear::<Result<String, String>>(jeton_child::UNLIMITED) {
            Ok(line) => {
                let mut out = io::stdout().lock();
                let line = line.map_err(Error::Failed)?;
                writeln!(out, "{line}").and_then(|()| out.flush()).map_err(printing)?;
            }
            Err(Silence::Ended(status)) if status.success() => return Ok(ExitCode::SUCCESS),
            Err(silence) => return Err(Error::Failed(format!("the module's process was lost: {silence:?}"))),
        }
    }
}
