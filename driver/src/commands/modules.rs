//! The code that the commands that measure share: the options that choose modules and tokens, the
//! start of a process for each module, the progress bar, the output files, and the handler of
//! Ctrl-C.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use jeton_driver::pipeline::{Job, Outcome, Participant, Plan, Target, Watcher, Work, Worker, measure};
use jeton_driver::report::Report;
use jeton_driver::results::Results;
use jeton_driver::role::Role;
use jeton_driver::selection::Selection;
use jeton_driver::{Error, Result};
use jeton_laboratory::distinct;
use jeton_peers::{KNOWN, Known, Sandbox, TokenAccess};

/// The options that choose modules.
#[derive(Args)]
pub struct Modules {
    /// A module: jeton, jeton-rc (Jeton with the RustCrypto backend), jeton-async (Jeton that signs
    /// in asynchronous sessions), openssl (the system's library, called directly), softhsm2, nss,
    /// kryoptic, craton, the path of a shared object, or all. May be repeated. The default is
    /// jeton, and softhsm2 and nss if they are found. The baseline in-process always runs. The
    /// variables KRYOPTIC_MODULE and CRATON_MODULE name the files of kryoptic and craton.
    #[arg(long)]
    module: Vec<String>,
    #[command(flatten)]
    token: TokenOptions,
    /// End the process of a module that reports nothing for this number of seconds.
    #[arg(long, default_value_t = 900)]
    stall_seconds: u64,
}

/// The options that choose the token of a module.
#[derive(Args)]
pub struct TokenOptions {
    /// The backend of jeton.
    #[arg(long, value_parser = ["aws-lc", "rustcrypto"])]
    backend: Option<String>,
    /// The label of an existing token, for a module that is given by its path. A module that is
    /// given by its name gets a temporary token. Only `jeton-driver tls` uses this option with a
    /// name too.
    #[arg(long)]
    pub token_label: Option<String>,
    /// The user PIN of the existing token. Default: a prompt.
    #[arg(long, env = "JETON_PIN", hide_env_values = true)]
    pin: Option<String>,
}

/// Environment variables of the process of a module.
pub type Environment = Vec<(String, OsString)>;

/// Settings that the processes of all modules share.
pub struct Shared<'a> {
    /// The number of threads that use the module.
    pub threads: usize,
    /// The number of RSA subscriber key pairs that are reused.
    pub rsa_key_pool: u64,
    pub database: PathBuf,
    /// The result store.
    pub results: Option<&'a Path>,
}

/// Whether the user has pressed Ctrl-C.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// The exit status after Ctrl-C, as in shells: 128 plus the number of SIGINT.
const INTERRUPTED_STATUS: u8 = 130;

/// The largest number of seconds that an option accepts: a day.
const MAX_SECONDS: f64 = 86_400.0;

/// Reads a number of seconds.
pub fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().map_err(|error| error.to_string())?;
    if (0.0..=MAX_SECONDS).contains(&seconds) {
        Ok(seconds)
    } else {
        Err(format!("not a number of seconds from 0 to {MAX_SECONDS}"))
    }
}

/// Lets Ctrl-C end the measurement instead of the process.
pub fn catch_interrupts() {
    // The call fails only if there is already a handler, and this process has none.
    let _ = ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::Relaxed));
}

/// Returns whether the user has pressed Ctrl-C.
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// Returns the exit status of a measurement.
pub fn status(failed: bool) -> ExitCode {
    match (interrupted(), failed) {
        (true, _) => ExitCode::from(INTERRUPTED_STATUS),
        (false, true) => ExitCode::FAILURE,
        (false, false) => ExitCode::SUCCESS,
    }
}

/// Opens an output before the long work begins.
pub fn open_output(path: Option<&Path>) -> Result<Option<(File, &Path)>> {
    path.map(|path| Ok((File::create(path).map_err(Error::io(path))?, path))).transpose()
}

/// Returns the width of the terminal at standard output.
pub fn terminal_columns() -> Option<usize> {
    let width = || terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    io::stdout().is_terminal().then(width).flatten()
}

/// Returns the number of processors.
pub fn available() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

impl Modules {
    /// Returns the baseline, then the modules of the command line, or else the installed modules.
    /// The second value lists known modules that are not installed.
    pub fn selections(&self) -> Result<(Vec<Selection>, Vec<String>)> {
        let mut selections = vec![Selection::InProcess];
        let mut all_absent = Vec::new();
        for text in &self.module {
            match text.as_str() {
                "all" => {
                    let (found, absent) = Selection::all();
                    all_absent = absent;
                    selections.extend(found);
                }
                text => selections.push(Selection::parse(text)?),
            }
        }
        if !self.module.is_empty() {
            return Ok((distinct(selections), all_absent));
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

    /// Returns the user PIN if the command line names a module by its path, and else `None`. Asks
    /// for the PIN before the long work begins.
    fn path_pin(&self) -> Result<Option<String>> {
        let mut named = self.module.iter().filter(|text| *text != "all");
        let path = named.find_map(|text| match Selection::parse(text) {
            Ok(Selection::Path(path)) => Some(path),
            _ => None,
        });
        let Some(path) = path else { return Ok(None) };
        self.token.pin(&path).map(Some)
    }

    /// Starts the process of each module, lets the modules take turns, and ends the processes. Adds
    /// the results to the report and to the result store, which it returns. `directory` is for the
    /// tokens.
    pub fn measure<W: Work, S>(
        &self,
        report: &mut Report<W::Measured, S>,
        selections: Vec<Selection>,
        plan: &Plan<W>,
        shared: &Shared<'_>,
        directory: &Path,
    ) -> Result<Option<Results>> {
        let begin = |path| Results::begin::<W>(path, &report.about, shared.threads, shared.rsa_key_pool);
        let results = shared.results.map(begin).transpose()?;
        let pin = self.path_pin()?;
        catch_interrupts();
        let mut participants = Vec::new();
        for (index, (name, selection)) in named(selections).into_iter().enumerate() {
            let own = directory.join(index.to_string());
            participants.push(self.start(name, &selection, shared, &own, pin.as_deref())?);
        }
        measure_all(report, participants, plan, results)
    }

    /// Starts the process of a module. A module that cannot be started takes no turns, and its
    /// outcome says why. `own` is a directory for its token.
    fn start<W: Work>(
        &self,
        name: String,
        selection: &Selection,
        shared: &Shared<'_>,
        own: &Path,
        pin: Option<&str>,
    ) -> Result<Participant<Worker<W>, W>> {
        let absent = |message| {
            let failures = vec![message];
            Participant { runner: None, outcome: Outcome { failures, ..Outcome::of(name.clone(), None) } }
        };
        let (target, environment) = match selection {
            Selection::InProcess => (Target::InProcess, Vec::new()),
            Selection::OpenSsl => (Target::OpenSsl, Vec::new()),
            Selection::Path(library) => {
                (self.token.existing(library.clone(), pin.unwrap_or_default()), Vec::new())
            }
            Selection::Known(known) => match known.library() {
                Some(library) => self.token.fresh(selection, library, own)?,
                None => return Ok(absent(format!("the module {} was not found", known.name()))),
            },
            Selection::RustCrypto | Selection::Asynchronous => match Known::Jeton.library() {
                Some(library) => self.token.fresh(selection, library, own)?,
                None => return Ok(absent("the module jeton was not found".to_owned())),
            },
        };
        let job = Job {
            name: name.clone(),
            target,
            threads: shared.threads,
            rsa_key_pool: shared.rsa_key_pool,
            database: shared.database.clone(),
            asynchronous: *selection == Selection::Asynchronous,
        };
        let stall = Duration::from_secs(self.stall_seconds);
        Ok(match Worker::start(&job, &environment, stall)? {
            Ok((worker, description)) => {
                Participant { runner: Some(worker), outcome: Outcome::of(name, Some(description)) }
            }
            Err(message) => absent(message),
        })
    }
}

impl TokenOptions {
    /// Returns the user PIN of an existing token. Looks at the module before it asks for the PIN.
    pub fn pin(&self, library: &Path) -> Result<String> {
        if let Some(pin) = &self.pin {
            return Ok(pin.clone());
        }
        loads(library)?;
        let absent = |_| Error::Failed("no PIN: give --pin, JETON_PIN, or a terminal".to_owned());
        rpassword::prompt_password("User PIN: ").map_err(absent)
    }

    /// Returns a module with its existing token.
    pub fn existing(&self, library: PathBuf, pin: &str) -> Target {
        let token = TokenAccess::Existing { label: self.token_label.clone(), pin: pin.to_owned() };
        Target::Module { library, reserved: None, token }
    }

    /// Returns the module with a fresh token in `directory`, and the environment of its process.
    pub fn fresh(
        &self,
        selection: &Selection,
        library: PathBuf,
        directory: &Path,
    ) -> Result<(Target, Environment)> {
        let (known, backend) = match selection {
            Selection::Known(known) => (*known, self.backend.as_deref()),
            Selection::Asynchronous => (Known::Jeton, self.backend.as_deref()),
            _ => (Known::Jeton, Some("rustcrypto")),
        };
        let sandbox = Sandbox::fresh(known, directory, backend)?;
        sandbox.start_agent(directory)?;
        let Sandbox { environment, reserved, token } = sandbox;
        Ok((Target::Module { library, reserved, token }, environment))
    }
}

/// Loads a module in a separate process, because a module runs code when it is loaded and may end
/// the process.
fn loads(library: &Path) -> Result<()> {
    let mut command = jeton_child::of_role(&Role::LoadModule(library.to_owned()));
    let output = command.output().map_err(Error::io("the driver"))?;
    if output.status.success() {
        return Ok(());
    }
    let reason = String::from_utf8_lossy(&output.stderr);
    Err(Error::Failed(match reason.trim() {
        "" => format!("loading {} ended the process: {}", library.display(), output.status),
        reason => reason.trim_start_matches("jeton-driver: ").to_owned(),
    }))
}

/// Lets the modules take turns, and ends their processes. Adds the results to the report and to the
/// result store, which it returns.
pub fn measure_all<W: Work, S>(
    report: &mut Report<W::Measured, S>,
    mut participants: Vec<Participant<Worker<W>, W>>,
    plan: &Plan<W>,
    results: Option<Results>,
) -> Result<Option<Results>> {
    for Participant { outcome, .. } in &participants {
        if let (Some(results), Some(description)) = (&results, &outcome.description) {
            results.describe(&outcome.name, description)?;
        }
    }
    let mut progress = Progress::new(plan, results);
    let measured = measure(&mut participants, plan, &mut progress);
    progress.bar.finish_and_clear();
    for Participant { runner, mut outcome } in participants {
        outcome.notes.extend(runner.and_then(Worker::finish));
        report.modules.push(outcome);
    }
    measured?;
    report.interrupted = interrupted();
    report.about.end();
    Ok(progress.results)
}

/// Gives each selection its name in the report. If modules have the same file name, all but the
/// first get a number.
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

/// The progress of a measurement: shows a bar on a terminal, and writes to the result store.
struct Progress {
    bar: ProgressBar,
    results: Option<Results>,
}

impl Progress {
    /// Shows the bar if standard error is a terminal.
    fn new<W>(plan: &Plan<W>, results: Option<Results>) -> Self {
        let total = plan.len() as u64;
        let bar = if io::stderr().is_terminal() { ProgressBar::new(total) } else { ProgressBar::hidden() };
        // The template is a constant that parses. Without it the bar would only look plainer.
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos}/{len} {elapsed} {wide_msg}") {
            bar.set_style(style);
        }
        bar.set_message("the modules start");
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar, results }
    }
}

impl<W: Work> Watcher<W> for Progress {
    fn begins(&mut self, module: &str, turn: &W) {
        self.bar.set_message(format!("{turn}, {module}"));
    }

    fn ran(&mut self, module: &str, turn: &W, round: usize, sample: &W::Sample) -> Result<()> {
        self.results.as_ref().map_or(Ok(()), |results| results.ran(module, turn, round, sample))
    }

    fn done(&mut self) {
        self.bar.inc(1);
    }

    fn interrupted(&self) -> bool {
        interrupted()
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
        assert_eq!(seconds("0.5"), Ok(0.5));
        for wrong in ["nan", "inf", "-1", "1e9", "x"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
