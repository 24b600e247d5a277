//! The groups of the bench. A group is one operation. Its rows are the modules and, for
//! cryptographic operations, the baseline. Each row does the same operation.

mod keys;
mod latency;
mod objects;
mod signatures;
mod start;
mod symmetric;
mod threads;

use std::env;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use super::{AnyError, facts};
use crate::artefacts::Artefacts;
use crate::facts::Run;
use crate::names::BASELINE;
use crate::operation::Boxed;
use crate::rows::{self, Maker, Row};
use crate::suite::{ALL, Rows, Suite};
use crate::target::{ModuleToken, Outcome};

/// Measures all groups that the command line asks for, with tokens below `directory`.
pub fn run(filter: Option<String>, directory: &Path, artefacts: &Artefacts) -> Result<(), AnyError> {
    let started = SystemTime::now();
    let mut suite = Suite::new(filter);
    let rows = rows::open(&mut suite, directory, artefacts);
    let row_facts: Vec<_> = rows.iter().map(Row::facts).collect();
    {
        let fixture = Fixture::open(&mut suite, &rows)?;
        signatures::run(&mut suite, &fixture);
        keys::run(&mut suite, &fixture);
        symmetric::run(&mut suite, &fixture);
        threads::run(&mut suite, &fixture);
        latency::run(&suite, &fixture)?;
        objects::run_few(&mut suite, &fixture);
    }
    objects::run_many(&mut suite, &rows);
    // A run of selected groups does not overwrite the facts of a run of all groups.
    if suite.filtered() {
        return Ok(());
    }
    let run = Run {
        command: env::args().skip(1).collect::<Vec<_>>().join(" "),
        short: suite.settings.short,
        started: started.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        seconds: started.elapsed().map_or(0, |since| since.as_secs()),
        rows: row_facts,
        left_out: suite.left_out,
        fills: suite.fills,
        turns: suite.turns,
    };
    facts::write(facts::file::RUN, &run)
}

pub struct Fixture {
    /// The modules: `jeton`, the other backend, then the peers.
    tokens: Vec<ModuleToken>,
    null: Option<ModuleToken>,
}

impl Fixture {
    fn open(suite: &mut Suite, rows: &[Row]) -> Result<Self, String> {
        let (mut tokens, mut null) = (Vec::new(), None);
        for row in rows {
            match row.maker {
                Maker::Null => null = Some(row.token()?),
                Maker::Ours => tokens.push(row.token()?),
                // Some peers are faster with session keys, so the full mode has both.
                Maker::Peer if suite.settings.short => tokens.extend(or_left_out(suite, row, row.token())),
                Maker::Peer => {
                    tokens.extend(or_left_out(suite, row, row.token()));
                    tokens.extend(or_left_out(suite, row, row.session_token()));
                }
            }
        }
        Ok(Self { tokens, null })
    }

    /// Returns all targets except the null backend. `jeton` is first, so that its row is next to
    /// the baseline's.
    fn targets(&self) -> Vec<&ModuleToken> {
        self.tokens.iter().collect()
    }

    fn null(&self) -> Option<&ModuleToken> {
        self.null.as_ref()
    }
}

fn or_left_out(suite: &mut Suite, row: &Row, token: Outcome<ModuleToken>) -> Option<ModuleToken> {
    token.map_err(|reason| suite.leave_out(ALL, &row.name, reason)).ok()
}

fn rows_of<'a>(
    targets: &[&'a ModuleToken],
    operation: impl Fn(&'a ModuleToken) -> Outcome<Boxed<'a>>,
) -> Rows<'a> {
    targets.iter().map(|target| (target.row().to_owned(), operation(target))).collect()
}

/// Returns one row for each target that uses its own keys. A target without keys is left out.
fn keyed<'a, K: Clone>(
    targets: &[&'a ModuleToken],
    keys: &[Outcome<K>],
    operation: impl Fn(&'a ModuleToken, K) -> Outcome<Boxed<'a>>,
) -> Rows<'a> {
    let row = |(target, keys): (&&'a ModuleToken, &Outcome<K>)| {
        (target.row().to_owned(), keys.clone().and_then(|keys| operation(target, keys)))
    };
    targets.iter().zip(keys).map(row).collect()
}

fn beside<'a>(baseline: Boxed<'a>, rows: Rows<'a>) -> Rows<'a> {
    std::iter::once((BASELINE.to_owned(), Ok(baseline))).chain(rows).collect()
}
