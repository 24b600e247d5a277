//! The program beside the bench. Its commands write the report, count instructions, and measure
//! loading, memory, many tokens, tokens in a database, the agent and keys with counted uses, and
//! whether times reveal secrets.

use jeton_benches::artefacts::Artefacts;
use jeton_benches::{
    agent, counted_uses, instructions, neighbours, report, run, startup, store, timing, tokens,
};

fn main() {
    run::if_child();
    let outcome = match std::env::args().nth(1).as_deref() {
        Some("report") => report::write(),
        Some("instructions") => {
            Artefacts::with_null().and_then(|artefacts| instructions::measure(&artefacts))
        }
        Some("startup") => Artefacts::with_null().and_then(|artefacts| startup::measure(&artefacts)),
        Some("store") => store::measure(&Artefacts::without_null()),
        Some("agent") => agent::measure(&Artefacts::without_null(), neighbours::section),
        Some("neighbours") => neighbours::print(),
        Some("counted") => counted_uses::measure(&Artefacts::without_null()),
        Some("tokens") => {
            let most = std::env::args().nth(2).and_then(|most| most.parse().ok());
            tokens::measure(&Artefacts::without_null(), most.unwrap_or(10_000))
        }
        Some("timing") => timing::measure(&std::env::args().skip(2).collect::<Vec<_>>()),
        _ => {
            let usage = "report | instructions | startup | store | agent | neighbours | counted | tokens [MOST] | timing [LIBRARY [BACKEND]]";
            Err(format!("usage: jeton-benches {usage}").into())
        }
    };
    if let Err(reason) = outcome {
        eprintln!("{reason}");
        std::process::exit(1);
    }
}
