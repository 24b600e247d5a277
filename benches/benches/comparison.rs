//! Runs every row of every group for `cargo bench`. A word on the command line selects the groups
//! whose names contain it. With `--quick` or `JETON_BENCH_SHORT=1` the run ends within ten minutes.

use jeton_benches::run;

fn main() {
    run::if_child();
    // `cargo test --benches` starts this program too, without this argument.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    if let Err(reason) = run::compare() {
        eprintln!("{reason}");
        std::process::exit(1);
    }
}
