//! The program beside the bench: writes the report, counts instructions, measures loading and
//! memory.

use jeton_benches::artefacts::Artefacts;
use jeton_benches::{instructions, report, run, startup, timing};

fn main() {
    run::if_child();
    let outcome = match std::env::args().nth(1).as_deref() {
        Some("report") => report::write(),
        Some("instructions") => Artefacts::build().and_then(|artefacts| instructions::measure(&artefacts)),
        Some("startup") => Artefacts::build().and_then(|artefacts| startup::measure(&artefacts)),
        Some("timing") => timing::measure(&std::env::args().skip(2).collect::<Vec<_>>()),
        _ => {
            Err("usage: jeton-benches report | instructions | startup | timing [LIBRARY [BACKEND]]"
                .to_owned())
        }
    };
    if let Err(reason) = outcome {
        eprintln!("{reason}");
        std::process::exit(1);
    }
}
