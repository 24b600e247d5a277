//! Runs the guides of `docs/clients`, each of which tests a client of another project. Prints the
//! results.
//!
//! Each guide runs with Jeton and with SoftHSMv2, unless the options choose other modules. Each
//! time, the guide has a new directory with a new token. The table shows all failures. If a guide
//! fails with Jeton, the program exits with an error.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::thread;

use clap::Parser;
use jeton_peers::{Error, Known, library_of};

mod page;
mod paste;
mod runner;
mod table;

use page::Page;
use runner::{Outcome, Runner};
use table::{Reasons, Row};

/// Run the guides to clients and print a table.
#[derive(Parser)]
#[command(name = "clients", version)]
struct Options {
    /// The modules, in the order of the table: jeton, jeton-agent, softhsm2, kryoptic.
    #[arg(long, value_delimiter = ',', default_value = "jeton,softhsm2")]
    module: Vec<String>,
    /// The backend of jeton: aws-lc or rustcrypto.
    #[arg(long)]
    backend: Option<String>,
    /// Run only these guides.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Also run the long blocks.
    #[arg(long)]
    soak: bool,
    /// Run only the guides that readers follow as root (yes), or only the others (no).
    #[arg(long)]
    root: Option<Answer>,
    /// Skip the guides that download something.
    #[arg(long)]
    offline: bool,
    /// Paste the blocks that readers see into a fresh shell that has only the variables of the
    /// guide.
    #[arg(long, conflicts_with = "soak")]
    pasted: bool,
    /// Show failed blocks with their full output.
    #[arg(long)]
    verbose: bool,
    /// The number of guides that run at the same time.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Also write the table into this file.
    #[arg(long)]
    write: Option<PathBuf>,
    /// The directory of the guides. Its path followed by `/../../conformance/clients` is the
    /// directory of the example programs.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/clients"))]
    guides: PathBuf,
    /// Set by the program when it runs itself to create a token.
    #[arg(long, hide = true)]
    make_token: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Answer {
    Yes,
    No,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let outcome = match &options.make_token {
        Some(module) => runner::token(module).map(|()| true),
        None => run(&options),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("clients: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs every requested guide. Returns whether no guide failed with Jeton.
fn run(options: &Options) -> Result<bool, Error> {
    let modules: Vec<_> = options.module.iter().map(|name| module(name)).collect::<Result<_, _>>()?;
    let mut pages = Page::all(&options.guides)?;
    pages.retain(|page| options.only.is_empty() || options.only.contains(&page.name));
    pages.retain(|page| !(options.offline && page.matter.network));
    pages.retain(|page| options.root.is_none_or(|root| (root == Answer::Yes) == page.matter.root));
    let waiting = Mutex::new(pages.iter().enumerate());
    let done = Mutex::new(Vec::new());
    let work = || -> Result<(), Error> {
        loop {
            // The statement releases the lock at its end, so no guide runs while the lock is held.
            let next = waiting.lock().map_or(None, |mut pages| pages.next());
            let Some((number, page)) = next else { return Ok(()) };
            let row = row(page, &modules, options)?;
            if let Ok(mut done) = done.lock() {
                done.push((number, row));
            }
        }
    };
    thread::scope(|scope| {
        let jobs: Vec<_> = (0..options.jobs.max(1)).map(|_| scope.spawn(work)).collect();
        jobs.into_iter().try_for_each(|job| job.join().expect("a job does not panic"))
    })?;
    let mut rows = done.into_inner().unwrap_or_default();
    rows.sort_by_key(|(number, _)| *number);
    let rows: Vec<_> = rows.into_iter().map(|(_, row)| row).collect();
    let names: Vec<_> = modules.iter().map(|(known, _)| known.name()).collect();
    let table = table::tabs(&names, &rows, &Reasons::read()?);
    println!("{table}");
    if let Some(file) = &options.write {
        fs::write(file, &table).map_err(Error::io(file))?;
    }
    let ours = rows.iter().flat_map(|row| modules.iter().zip(&row.outcomes));
    let failed = |outcome: &Outcome| matches!(outcome, Outcome::Done(_, failed) if !failed.is_empty());
    Ok(ours.filter(|((known, _), _)| known.is_ours()).all(|(_, outcome)| !failed(outcome)))
}

fn module(name: &str) -> Result<(Known, PathBuf), Error> {
    let known = Known::named(name).filter(|known| *known != Known::Nss);
    let known =
        known.ok_or_else(|| Error::Message(format!("{name} is not one of jeton, softhsm2, kryoptic")))?;
    let library = library_of(name)?;
    Ok((known, library.canonicalize().map_err(Error::io(library))?))
}

/// Runs a guide with each module.
fn row<'a>(page: &'a Page, modules: &[(Known, PathBuf)], options: &Options) -> Result<Row<'a>, Error> {
    if let Some(missing) = page.matter.programs.iter().find(|program| !installed(program)) {
        let packages = page.matter.packages.join(" ");
        let absent = || Outcome::Absent(format!("no {missing}: apt-get install {packages}"));
        let outcomes = modules.iter().map(|_| absent()).collect();
        return Ok(Row { page, version: "-".to_owned(), outcomes });
    }
    let examples = options.guides.join("../../conformance/clients");
    let examples = examples.canonicalize().map_err(Error::io(examples))?;
    let mut outcomes = Vec::new();
    for (known, library) in modules {
        let backend = options.backend.as_deref().filter(|_| known.is_ours());
        let outcome = if options.pasted {
            paste::run(*known, library, page, &examples, options.verbose)?
        } else {
            Runner::new(*known, library, backend, &examples)?.run(page, options.soak, options.verbose)?
        };
        if let Outcome::Done(well, failed) = &outcome {
            eprintln!("{}: {}: {} ok, {} failed", page.name, known.name(), well.len(), failed.len());
        }
        outcomes.push(outcome);
    }
    Ok(Row { page, version: version(page), outcomes })
}

/// Returns the `PATH` of the guides. It begins with that of this process. The directory of this
/// program is in it too, because cargo builds the tool `jeton` there.
pub fn program_path() -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    let own = std::env::current_exe().ok().and_then(|program| Some(program.parent()?.display().to_string()));
    format!("{path}:/usr/sbin:/sbin:{}", own.unwrap_or_default())
}

/// Returns whether a guide finds a program.
fn installed(program: &str) -> bool {
    std::env::split_paths(&program_path()).any(|directory| directory.join(Path::new(program)).is_file())
}

/// Returns the first line of the client's version output.
fn version(page: &Page) -> String {
    let command = format!("{} 2>&1", page.matter.version);
    let mut bash = Command::new("bash");
    let said = bash.args(["-c", &command]).env("PATH", program_path()).stdin(Stdio::null()).output();
    let said =
        said.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    said.lines().next().unwrap_or("-").to_owned()
}
