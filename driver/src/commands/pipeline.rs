//! `pipeline`: which modules, which algorithms and sizes; a child process for each module, and the
//! report.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use jeton_driver::Error;
use jeton_driver::pipeline::{Event, Job, Outcome, Target, run_child, run_job};
use jeton_driver::pki::Algorithm;
use jeton_driver::report::{self, Report};
use jeton_driver::selection::Selection;
use jeton_peers::{KNOWN, Sandbox, TokenAccess};

use super::backend::Backend;
use super::{pin, printing};

/// Run the X.509 PKI pipeline through modules side by side.
///
/// Every size is repeated for --min-seconds and three times at least (once, if that alone takes
/// four seconds), and the medians are shown. A run of size 4 before them warms up and is not
/// counted.
#[derive(Args)]
pub struct Pipeline {
    /// jeton, softhsm2, nss, in-process, or the path of a shared object; may be repeated. Without
    /// it: jeton and each peer found on the machine. The baseline in-process always runs.
    #[arg(long)]
    module: Vec<String>,
    /// ecdsa-p256, ed25519, ml-dsa-44, ml-dsa-65, rsa2048, rsa3072, rsa4096, or all; may be
    /// repeated.
    #[arg(long, value_delimiter = ',', default_value = "ecdsa-p256")]
    ca_key_algo: Vec<String>,
    /// Batch sizes.
    #[arg(long, value_delimiter = ',', default_value = "1,64,1024", value_parser = clap::value_parser!(u64).range(1..=MAX_SIZE))]
    sizes: Vec<u64>,
    /// Repeat each size for at least this number of seconds.
    #[arg(long, default_value_t = 0.5)]
    min_seconds: f64,
    /// Threads of the parallel stages. Default: the number of cores.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=MAX_THREADS))]
    threads: Option<u64>,
    /// Keep the database in this file.
    #[arg(long)]
    db: Option<PathBuf>,
    /// Write the report to this file, as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Write the CA certificate, a leaf, the CRL and an OCSP response of each algorithm below this
    /// directory.
    #[arg(long)]
    keep: Option<PathBuf>,
    /// The backend of jeton.
    #[arg(long, value_enum)]
    backend: Option<Backend>,
    /// RSA key pairs of subscribers that a batch generates and reuses. 0 generates one for each
    /// certificate.
    #[arg(long, default_value_t = 16)]
    rsa_key_pool: u64,
    /// The token of a module given by its path.
    #[arg(long)]
    token_label: Option<String>,
    /// The user PIN of this token. Default: a prompt.
    #[arg(long, env = "JETON_PIN", hide_env_values = true)]
    pin: Option<String>,
    /// End a module that reports nothing for this number of seconds.
    #[arg(long, default_value_t = 900)]
    stall_seconds: u64,
}

/// The user has pressed Ctrl-C.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

const MAX_SIZE: u64 = 1 << 20;
const MAX_THREADS: u64 = 1024;

/// The hidden command of a module's process.
pub fn child() -> Result<ExitCode, Error> {
    run_child(io::stdin().lock(), io::stdout())?;
    Ok(ExitCode::SUCCESS)
}

impl Pipeline {
    /// Runs the command. Fails if a module failed.
    pub fn run(self) -> Result<ExitCode, Error> {
        let algorithms = self.algorithms()?;
        let threads = self.threads.map_or_else(available, |threads| threads as usize);
        let mut report = Report::new(algorithms, self.sizes.clone(), threads, self.rsa_key_pool);
        let pin = self.path_pin()?;
        let directory = tempfile::tempdir().map_err(Error::io("a temporary directory"))?;
        let (selections, absent) = self.selections()?;
        report.absent = absent;
        // The only error is a second handler, which does not exist.
        let _ = ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::Relaxed));
        for (index, selection) in selections.iter().enumerate() {
            let own = directory.path().join(index.to_string());
            let outcome = self.run_module(selection, &report, &own, directory.path(), pin.as_deref())?;
            report.add(selection.name(), outcome);
            if INTERRUPTED.load(Ordering::Relaxed) {
                // The child was interrupted with the tool. Its current stage has no result.
                return Err(Error::Usage("interrupted".to_owned()));
            }
        }
        report::print(&report, &mut io::stdout().lock()).map_err(printing)?;
        if let Some(path) = &self.json {
            report.write_json(path)?;
        }
        Ok(if report.failed() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    fn algorithms(&self) -> Result<Vec<String>, Error> {
        if self.ca_key_algo.iter().any(|name| name == "all") {
            return Ok(jeton_driver::pki::ALGORITHMS.iter().map(|one| one.name.to_owned()).collect());
        }
        self.ca_key_algo.iter().map(|name| Ok(Algorithm::named(name)?.name.to_owned())).collect()
    }

    /// Returns the baseline, then the modules of the command line, or else the installed modules.
    /// The second value lists known modules that are not installed.
    fn selections(&self) -> Result<(Vec<Selection>, Vec<String>), Error> {
        let mut selections = vec![Selection::InProcess];
        for text in &self.module {
            let selection = Selection::parse(text)?;
            if !selections.contains(&selection) {
                selections.push(selection);
            }
        }
        if !self.module.is_empty() {
            return Ok((selections, Vec::new()));
        }
        let (there, absent): (Vec<_>, Vec<_>) =
            KNOWN.into_iter().partition(|known| known.library().is_some());
        selections.extend(there.into_iter().map(Selection::Known));
        Ok((selections, absent.into_iter().map(|known| known.name().to_owned()).collect()))
    }

    /// Returns the PIN for a module with a path. Asks for it before the long work begins.
    fn path_pin(&self) -> Result<Option<String>, Error> {
        let has_path =
            self.module.iter().any(|text| matches!(Selection::parse(text), Ok(Selection::Path(_))));
        if has_path { pin::ask(self.pin.clone(), "User").map(Some) } else { Ok(None) }
    }

    fn run_module(
        &self,
        selection: &Selection,
        report: &Report,
        own: &Path,
        shared: &Path,
        pin: Option<&str>,
    ) -> Result<Outcome, Error> {
        let (target, environment) = match selection {
            Selection::InProcess => (Target::InProcess, Vec::new()),
            Selection::Path(library) => {
                let pin = pin.unwrap_or_default().to_owned();
                let token = TokenAccess::Existing { label: self.token_label.clone(), pin };
                (Target::Module { library: library.clone(), reserved: None, token }, Vec::new())
            }
            Selection::Known(known) => {
                let Some(library) = known.library() else {
                    let message = format!("the module {} was asked for and not found", known.name());
                    return Ok(Outcome { failures: vec![(None, message)], ..Outcome::default() });
                };
                let Sandbox { environment, reserved, token } =
                    Sandbox::fresh(*known, own, self.backend.map(Backend::name))?;
                (Target::Module { library, reserved, token }, environment)
            }
        };
        let job = Job {
            name: selection.name(),
            target,
            algorithms: report.algorithms.clone(),
            sizes: report.sizes.clone(),
            min_seconds: self.min_seconds,
            threads: report.threads,
            rsa_key_pool: report.rsa_key_pool,
            database: self.db.clone().unwrap_or_else(|| shared.join("pipeline.db")),
            keep: self.keep.clone(),
        };
        let progress = Progress::new(&job);
        run_job(&job, &environment, Duration::from_secs(self.stall_seconds), &|event| progress.show(event))
    }
}

fn available() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Returns a progress bar on a terminal, and a hidden one elsewhere.
struct Progress {
    bar: ProgressBar,
    name: String,
}

impl Progress {
    fn new(job: &Job) -> Self {
        let total = (job.algorithms.len() * job.sizes.len()) as u64;
        let bar = if io::stderr().is_terminal() { ProgressBar::new(total) } else { ProgressBar::hidden() };
        // The template is a constant that parses. Without it the bar would only look plainer.
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos}/{len} {wide_msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar, name: job.name.clone() }
    }

    fn show(&self, event: &Event) {
        match event {
            Event::Progress { algorithm, size, run, stage } => {
                self.bar
                    .set_message(format!("{}: {algorithm}, batch of {size}, run {run}, {stage}", self.name));
            }
            Event::Measured(_) => self.bar.inc(1),
            Event::Done => self.bar.finish_and_clear(),
            Event::Described(_) | Event::NotAvailable { .. } | Event::Failed { .. } => {}
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
