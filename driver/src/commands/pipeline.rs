//! `pipeline`: reads the options, starts a child process for each module, lets the modules take
//! turns, and prints the report.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use jeton_driver::Error;
use jeton_driver::pipeline::{
    Database, Job, Outcome, Participant, Plan, Seconds, Target, Turn, Watcher, Worker, measure, run_child,
};
use jeton_driver::pki::{ALGORITHMS, Profile};
use jeton_driver::report::{self, Report};
use jeton_driver::results::Results;
use jeton_driver::selection::Selection;
use jeton_peers::{KNOWN, Known, Sandbox, TokenAccess};

use super::backend::Backend;
use super::{pin, printing};

/// Run the X.509 PKI pipeline through modules side by side.
///
/// The modules take turns: in each round every module runs the same batch once, and so does the
/// baseline. A size is repeated until each module has run for --min-seconds, and has run three
/// times or for four seconds in total. The tables show medians. A first run of size 4 warms up and
/// is not counted.
#[derive(Args)]
pub struct Pipeline {
    /// jeton, jeton-rc (with the RustCrypto backend), openssl (the system's library, called
    /// directly), softhsm2, nss, kryoptic, craton, the path of a shared object, or all; may be
    /// repeated. The default is jeton, softhsm2 and nss, as far as they are found. The baseline
    /// in-process always runs. KRYOPTIC_MODULE and CRATON_MODULE name the files of these two.
    #[arg(long)]
    module: Vec<String>,
    /// ecdsa-p256, ecdsa-p384, ed25519, ml-dsa-44, ml-dsa-65, rsa2048, rsa3072, rsa4096,
    /// slh-dsa-sha2-128f, or all; may be repeated. After a slash: another algorithm for the
    /// subscribers' keys, as in rsa4096/ecdsa-p256.
    #[arg(long, value_delimiter = ',', default_value = "ecdsa-p256")]
    ca_key_algo: Vec<String>,
    /// Batch sizes.
    #[arg(long, value_delimiter = ',', default_value = "1,64,1024", value_parser = clap::value_parser!(u64).range(1..=MAX_SIZE))]
    sizes: Vec<u64>,
    /// Repeat each size for at least this number of seconds.
    #[arg(long, default_value_t = 0.5, value_parser = min_seconds)]
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
    /// Write each run to this file as it is measured: an SQLite database, which later measurements
    /// may share. `jeton compare` compares two of these files. `jeton report` makes a
    /// page from one of them.
    #[arg(long)]
    results: Option<PathBuf>,
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
    /// The label of the token, for a module that is given by its path.
    #[arg(long)]
    token_label: Option<String>,
    /// The user PIN of this token. Default: a prompt.
    #[arg(long, env = "JETON_PIN", hide_env_values = true)]
    pin: Option<String>,
    /// End the process of a module that reports nothing for this number of seconds.
    #[arg(long, default_value_t = 900)]
    stall_seconds: u64,
}

/// The user has pressed Ctrl-C.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

const MAX_SIZE: u64 = 1 << 20;
const MAX_THREADS: u64 = 1024;
/// The number of seconds in a day.
const MAX_SECONDS: f64 = 86_400.0;
/// The exit status after Ctrl-C, as in shells: 128 plus the number of SIGINT.
const INTERRUPTED_STATUS: u8 = 130;

/// Reads the value of `--min-seconds`.
fn min_seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().map_err(|error| error.to_string())?;
    if (0.0..=MAX_SECONDS).contains(&seconds) {
        Ok(seconds)
    } else {
        Err(format!("not a number of seconds from 0 to {MAX_SECONDS}"))
    }
}

/// The hidden command of a module's process.
pub fn child() -> Result<ExitCode, Error> {
    // Ctrl-C reaches every process of the terminal. The parent decides what happens. The call fails
    // only if there is already a handler, and this process has none.
    let _ = ctrlc::set_handler(|| ());
    run_child(io::stdin().lock(), io::stdout())?;
    Ok(ExitCode::SUCCESS)
}

impl Pipeline {
    /// Runs the command. Fails if a module failed.
    pub fn run(self) -> Result<ExitCode, Error> {
        let algorithms = self.algorithms()?;
        let threads = self.threads.map_or_else(available, |threads| threads as usize);
        let mut report = Report::new(algorithms, self.sizes.clone(), threads, self.rsa_key_pool);
        let (selections, absent) = self.selections()?;
        report.absent = absent;
        let selections = named(selections);
        let directory = tempfile::tempdir().map_err(Error::io("a temporary directory"))?;
        let json = self.open_outputs()?;
        let results = self
            .results
            .as_ref()
            .map(|path| Results::begin(path, &report.machine, report.threads, report.rsa_key_pool));
        let results = results.transpose()?;
        let pin = self.path_pin()?;
        // The call fails only if there is already a handler, and this process has none.
        let _ = ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::Relaxed));
        let mut participants = Vec::new();
        for (index, (name, selection)) in selections.iter().enumerate() {
            let own = directory.path().join(index.to_string());
            participants.push(self.start(
                name,
                selection,
                &report,
                &own,
                directory.path(),
                pin.as_deref(),
            )?);
        }
        let plan = Plan {
            algorithms: report.algorithms.clone(),
            sizes: report.sizes.clone(),
            min_seconds: self.min_seconds,
        };
        if let Some(results) = &results {
            for ((name, _), participant) in selections.iter().zip(&participants) {
                if let Some(description) = &participant.outcome.description {
                    results.describe(name, description)?;
                }
            }
        }
        let mut progress = Progress::new(&plan, results);
        let measured = measure(&mut participants, &plan, &mut progress);
        let results = progress.results.take();
        drop(progress);
        for ((name, _), Participant { runner, mut outcome }) in selections.into_iter().zip(participants) {
            outcome.notes.extend(runner.and_then(Worker::finish));
            report.add(name, outcome);
        }
        measured?;
        if let Some(results) = &results {
            results.add_documents(&Database::open(&self.database(directory.path()))?.document_sizes()?)?;
        }
        report.interrupted = INTERRUPTED.load(Ordering::Relaxed);
        let columns = io::stdout().is_terminal().then(terminal_columns).flatten();
        report::print(&report, columns, &mut io::stdout().lock()).map_err(printing)?;
        if let Some((file, path)) = &json {
            report.write_json(file, path)?;
        }
        Ok(match (report.interrupted, report.failed()) {
            (true, _) => ExitCode::from(INTERRUPTED_STATUS),
            (false, true) => ExitCode::FAILURE,
            (false, false) => ExitCode::SUCCESS,
        })
    }

    /// Opens the output files before the long work begins. Returns the file for JSON.
    fn open_outputs(&self) -> Result<Option<(File, &Path)>, Error> {
        if let Some(path) = &self.db {
            Database::open(path)?;
        }
        if let Some(path) = &self.keep {
            std::fs::create_dir_all(path).map_err(Error::io(path))?;
        }
        let Some(path) = &self.json else { return Ok(None) };
        Ok(Some((File::create(path).map_err(Error::io(path))?, path)))
    }

    /// Returns the path of the database. `shared` is the directory of the run.
    fn database(&self, shared: &Path) -> PathBuf {
        self.db.clone().unwrap_or_else(|| shared.join("pipeline.db"))
    }

    fn algorithms(&self) -> Result<Vec<String>, Error> {
        let mut names: Vec<String> = Vec::new();
        for name in &self.ca_key_algo {
            let wanted = match name.as_str() {
                "all" => ALGORITHMS.iter().map(|one| one.name.to_owned()).collect(),
                name => vec![Profile::named(name)?.name()],
            };
            for name in wanted {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        Ok(names)
    }

    /// Returns the baseline, then the modules of the command line, or else the installed modules.
    /// The second value lists known modules that are not installed.
    fn selections(&self) -> Result<(Vec<Selection>, Vec<String>), Error> {
        let mut selections = vec![Selection::InProcess];
        let mut all_absent = Vec::new();
        for text in &self.module {
            let wanted = match text.as_str() {
                "all" => {
                    let (found, absent) = Selection::all();
                    all_absent = absent;
                    found
                }
                text => vec![Selection::parse(text)?],
            };
            for selection in wanted {
                if !selections.contains(&selection) {
                    selections.push(selection);
                }
            }
        }
        if !self.module.is_empty() {
            return Ok((selections, all_absent));
        }
        if Known::Jeton.library().is_none() {
            return Err(Error::Failed(
                "libjeton_pkcs11.so is not beside this program: build it, or name the modules with --module"
                    .to_owned(),
            ));
        }
        let (there, absent): (Vec<_>, Vec<_>) =
            KNOWN.into_iter().partition(|known| known.library().is_some());
        selections.extend(there.into_iter().map(Selection::Known));
        Ok((selections, absent.into_iter().map(|known| known.name().to_owned()).collect()))
    }

    /// Returns the PIN for a module with a path. Asks for it before the long work begins.
    fn path_pin(&self) -> Result<Option<String>, Error> {
        let mut named = self.module.iter().filter(|text| *text != "all");
        let path = named.find_map(|text| match Selection::parse(text) {
            Ok(Selection::Path(path)) => Some(path),
            _ => None,
        });
        let Some(path) = path else { return Ok(None) };
        pin::ask_for_module(&path, self.pin.clone()).map(|pin| Some(pin.to_string()))
    }

    /// Starts the process of a module. A module that cannot be started takes no turns, and its
    /// outcome says why.
    fn start(
        &self,
        name: &str,
        selection: &Selection,
        report: &Report,
        own: &Path,
        shared: &Path,
        pin: Option<&str>,
    ) -> Result<Participant<Worker>, Error> {
        let absent = |message| Participant {
            runner: None,
            outcome: Outcome { failures: vec![(None, message)], ..Outcome::default() },
        };
        let (target, environment) = match selection {
            Selection::InProcess => (Target::InProcess, Vec::new()),
            Selection::OpenSsl => (Target::OpenSsl, Vec::new()),
            Selection::Path(library) => {
                let pin = pin.unwrap_or_default().to_owned();
                let token = TokenAccess::Existing { label: self.token_label.clone(), pin };
                (Target::Module { library: library.clone(), reserved: None, token }, Vec::new())
            }
            Selection::Known(_) | Selection::RustCrypto => {
                let (known, backend) = match selection {
                    Selection::Known(known) => (*known, self.backend),
                    _ => (Known::Jeton, Some(Backend::Rustcrypto)),
                };
                let Some(library) = known.library() else {
                    return Ok(absent(format!("the module {} was not found", known.name())));
                };
                let Sandbox { environment, reserved, token } =
                    Sandbox::fresh(known, own, backend.map(Backend::name))?;
                (Target::Module { library, reserved, token }, environment)
            }
        };
        let job = Job {
            name: name.to_owned(),
            target,
            threads: report.threads,
            rsa_key_pool: report.rsa_key_pool,
            database: self.database(shared),
            keep: self.keep.clone(),
        };
        let stall = Duration::from_secs(self.stall_seconds);
        Ok(match Worker::start(&job, &environment, stall)? {
            Ok((worker, description)) => Participant {
                runner: Some(worker),
                outcome: Outcome { description: Some(description), ..Outcome::default() },
            },
            Err(message) => absent(message),
        })
    }
}

/// Gives each selection its name in the report. Modules with the same file name get a number.
fn named(selections: Vec<Selection>) -> Vec<(String, Selection)> {
    let mut named: Vec<(String, Selection)> = Vec::new();
    for selection in selections {
        let stem = selection.name();
        let numbered = (2..).map(|number| format!("{stem}-{number}"));
        let mut names = std::iter::once(stem.clone()).chain(numbered);
        let free = names.find(|name| named.iter().all(|(taken, _)| taken != name));
        named.push((free.unwrap_or(stem), selection));
    }
    named
}

/// Returns the width of the terminal at standard output.
fn terminal_columns() -> Option<usize> {
    terminal_size::terminal_size().map(|(width, _)| usize::from(width.0))
}

fn available() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The progress of a measurement: shown by a bar on a terminal, and written to the result store.
struct Progress {
    bar: ProgressBar,
    results: Option<Results>,
}

impl Progress {
    fn new(plan: &Plan, results: Option<Results>) -> Self {
        let total = (plan.algorithms.len() * plan.sizes.len()) as u64;
        let bar = if io::stderr().is_terminal() { ProgressBar::new(total) } else { ProgressBar::hidden() };
        // The template is a constant that parses. Without it the bar would only look plainer.
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos}/{len} {eta} left {wide_msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar, results }
    }
}

impl Watcher for Progress {
    fn begins(&mut self, module: &str, turn: &Turn) {
        let Turn { algorithm, size, round } = turn;
        self.bar.set_message(format!("{algorithm}, batch of {size}, round {round}, {module}"));
    }

    fn ran(&mut self, module: &str, turn: &Turn, seconds: &Seconds) -> Result<(), Error> {
        match &mut self.results {
            Some(results) => results.add(module, turn, seconds),
            None => Ok(()),
        }
    }

    fn done(&mut self, _: &str, _: u64) {
        self.bar.inc(1);
    }

    fn interrupted(&self) -> bool {
        INTERRUPTED.load(Ordering::Relaxed)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_with_the_same_file_name_get_different_names() {
        let paths = ["/a/libsofthsm2.so", "/b/libsofthsm2.so"].map(|path| Selection::Path(path.into()));
        let names: Vec<_> = named(paths.into()).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["libsofthsm2", "libsofthsm2-2"]);
    }

    #[test]
    fn only_a_finite_time_is_accepted() {
        assert_eq!(min_seconds("0.5"), Ok(0.5));
        for wrong in ["nan", "inf", "-1", "1e9", "x"] {
            assert!(min_seconds(wrong).is_err(), "{wrong}");
        }
    }
}
