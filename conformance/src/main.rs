//! Conformance cases for any PKCS#11 module, seen through its C interface alone.
//!
//! A case is a row: the function, what is asked of it, the return codes that the specification allows. The scorecard
//! names what each got. A deviation of a peer is shown and fails nothing; one of Jeton ends the run with an error.

use std::process::{Command, ExitCode};

use clap::Parser;
use cryptoki_sys::CK_RV;
use jeton_driver::Error;
use jeton_driver::client::{Module, names};
use jeton_driver::peers::{self, Known, Seat, library_of};

mod cases;

use cases::{CASES, Place};

/// Runs the cases on a module and prints the scorecard.
#[derive(Parser)]
#[command(name = "conformance", version)]
struct Options {
    /// jeton, softhsm2 or nss.
    #[arg(long, default_value = "jeton")]
    module: String,
    /// The backend of jeton: aws-lc or rustcrypto.
    #[arg(long)]
    backend: Option<String>,
    /// Set by the tool for its second self: the module's parameters are in the environment.
    #[arg(long, hide = true)]
    seat: Option<String>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let outcome = match &options.seat {
        Some(seat) => score(&options.module, seat),
        None => seated(&options),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("conformance: {error}");
        ExitCode::FAILURE
    })
}

/// The module reads its environment when it is loaded: the tool runs itself with the one of a fresh token.
fn seated(options: &Options) -> Result<ExitCode, Error> {
    let known = Known::named(&options.module)
        .ok_or_else(|| Error::Usage(format!("{} is none of jeton, softhsm2, nss", options.module)))?;
    library_of(known.name())?;
    let directory = tempfile::tempdir().map_err(Error::io("a temporary directory"))?;
    let seat = Seat::fresh(known, directory.path(), options.backend.as_deref())?;
    let text = serde_json::to_string(&(&seat.reserved, &seat.token))
        .map_err(|error| Error::Usage(error.to_string()))?;
    let program = std::env::current_exe().map_err(Error::io("the tool's own executable"))?;
    let mut command = Command::new(&program);
    command.args(["--module", &options.module, "--seat", &text]).envs(seat.environment);
    let status = command.status().map_err(Error::io(program))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs every case and prints its line, then the count.
fn score(name: &str, seat: &str) -> Result<ExitCode, Error> {
    let (reserved, token) = serde_json::from_str::<(Option<String>, _)>(seat)
        .map_err(|error| Error::Usage(format!("--seat: {error}")))?;
    let module = Module::load(library_of(name)?)?;
    module.initialize(reserved.as_deref())?;
    let (slot, pin) = peers::prepare_token(&module, &token)?;
    let place = Place::new(&module, slot, pin)?;
    let mut passed = 0;
    for case in CASES {
        let got = (case.run)(&place).err().map_or(cryptoki_sys::CKR_OK, |failure| failure.code);
        let fits = case.expected.contains(&got);
        passed += usize::from(fits);
        let verdict = if fits { "ok  " } else { "FAIL" };
        println!("{verdict} {:<22} {:<52} {}", case.function, case.name, said(case.expected, got));
    }
    println!("\n{name}: {passed} of {} cases", CASES.len());
    let tolerated = passed == CASES.len() || name != Known::Jeton.name();
    Ok(if tolerated { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn said(expected: &[CK_RV], got: CK_RV) -> String {
    let names: Vec<_> = expected.iter().map(|code| names::return_code(*code)).collect();
    let got = names::return_code(got);
    if names.contains(&got) { got } else { format!("{got}, not {}", names.join(" or ")) }
}
