//! Objects: create, read, destroy, and search among few and many.

use std::ops::Range;
use std::time::Instant;

use super::{Fixture, keyed, rows_of, signatures, start};
use crate::facts::Filled;
use crate::rows::{Maker, Row};
use crate::scheme::named;
use crate::suite::Suite;
use crate::target::{FINDABLE, Findable, Home, ModuleToken, Outcome};

/// The numbers of session objects. Each search is measured with each of these numbers.
const IN_SESSIONS: [usize; 4] = [10, 1_000, 100_000, 1_000_000];
const IN_TOKENS: [usize; 4] = [10, 1_000, 10_000, 100_000];
/// The number of threads that create token objects in one of our tokens. One thread fills a peer,
/// because peers are fastest with one thread.
const FILLERS: usize = 8;

pub(super) fn run_few(suite: &mut Suite, fixture: &Fixture) {
    let targets = fixture.targets();
    suite.compare("session/open-close", None, || rows_of(&targets, |target| target.sessions()));
    if suite.wants("object/attributes") {
        let keys: Vec<_> = targets.iter().map(|target| target.pair(named("p256"))).collect();
        suite.compare("object/attributes", None, || {
            keyed(&targets, &keys, |target, keys| target.reading(keys))
        });
        targets.iter().zip(keys).for_each(|(target, keys)| signatures::destroy(target, keys));
    }
    for home in [Home::Session, Home::Token] {
        let [create, destroy] = ["create", "destroy"].map(|verb| format!("object/{verb}-{}", home.name()));
        suite.compare(&create, None, || rows_of(&targets, |target| target.creating(home)));
        suite.compare(&destroy, None, || rows_of(&targets, |target| target.destroying(home)));
    }
}

/// Searches and starts, with growing numbers of objects.
pub(super) fn run_many(suite: &mut Suite, rows: &[Row]) {
    // The backend makes little difference here, so one of our modules is enough.
    let first = rows.iter().find(|row| row.maker == Maker::Ours);
    let rows: Vec<_> = first.into_iter().chain(rows.iter().filter(|row| row.maker == Maker::Peer)).collect();
    let searches = |home: Home, size: usize| FINDABLE.map(|what| search_group(home, what, size));
    let in_session = IN_SESSIONS.iter().flat_map(|size| searches(Home::Session, *size));
    let first_uses = IN_SESSIONS.iter().map(|size| first_use_group(*size));
    if in_session.chain(first_uses).any(|group| suite.wants(&group)) {
        in_sessions(suite, &rows);
    }
    let in_token = IN_TOKENS.iter().flat_map(|size| searches(Home::Token, *size));
    let starts = IN_TOKENS.iter().flat_map(|size| start::groups(*size));
    if in_token.chain(starts).any(|group| suite.wants(&group)) {
        in_tokens(suite, &rows);
    }
}

fn in_sessions(suite: &mut Suite, rows: &[&Row]) {
    let mut crowded = Crowded::open(suite, rows, Home::Session);
    let mut before = 0;
    for size in IN_SESSIONS {
        crowded.fill(suite, before..size);
        before = size;
        search(suite, &crowded.tokens, Home::Session, size);
        if size == IN_SESSIONS[0] || size == IN_SESSIONS[3] {
            let targets = targets(&crowded.tokens);
            suite.compare(&first_use_group(size), None, || rows_of(&targets, |target| target.first_use()));
        }
    }
}

fn in_tokens(suite: &mut Suite, rows: &[&Row]) {
    let mut crowded = Crowded::open(suite, rows, Home::Token);
    let mut before = 0;
    for size in IN_TOKENS {
        crowded.fill(suite, before..size);
        before = size;
        search(suite, &crowded.tokens, Home::Token, size);
        // A restart ends the sessions.
        let rows: Vec<_> = crowded.rows();
        crowded.tokens.clear();
        start::run(suite, &rows, size);
        crowded = Crowded::open(suite, &rows, Home::Token);
    }
}

/// Tokens that are being filled with objects. The larger groups leave out a token that did not get
/// all objects within the time limit.
struct Crowded<'a> {
    home: Home,
    tokens: Vec<(&'a Row, ModuleToken)>,
}

impl<'a> Crowded<'a> {
    fn open(suite: &mut Suite, rows: &[&'a Row], home: Home) -> Self {
        let mut tokens = Vec::new();
        for row in rows {
            match row.token() {
                Ok(token) => tokens.push((*row, token)),
                Err(reason) => suite.leave_out(&format!("search/{}", home.name()), &row.name, reason),
            }
        }
        Self { home, tokens }
    }

    fn rows(&self) -> Vec<&'a Row> {
        self.tokens.iter().map(|(row, _)| *row).collect()
    }

    fn fill(&mut self, suite: &mut Suite, range: Range<usize>) {
        let home = self.home;
        self.tokens.retain(|(row, token)| match fill(suite, row, token, home, range.clone()) {
            Ok(()) => true,
            Err(reason) => {
                suite.leave_out(&format!("search/{}/…/{}", home.name(), range.end), &row.name, reason);
                false
            }
        });
    }
}

fn fill(suite: &mut Suite, row: &Row, token: &ModuleToken, home: Home, range: Range<usize>) -> Outcome<()> {
    let patience = suite.patience(row.maker == Maker::Ours);
    let threads = if home == Home::Token && row.maker == Maker::Ours { FILLERS } else { 1 };
    let begin = Instant::now();
    let made = token.fill(range.clone(), home, threads, &|| begin.elapsed() > patience);
    let made = made.map_err(|failure| failure.to_string())?;
    let seconds = begin.elapsed().as_secs_f64();
    let reached = range.start + made;
    println!("{}: {reached} of {} {} objects after {seconds:.2} s", row.name, range.end, home.name());
    suite.fills.push(Filled {
        row: row.name.clone(),
        home: home.name().to_owned(),
        wanted: range.end,
        reached,
        made,
        threads,
        seconds,
    });
    if made == range.len() {
        Ok(())
    } else {
        Err(format!("{reached} of {} objects within {patience:?}", range.end))
    }
}

fn targets<'a>(tokens: &'a [(&Row, ModuleToken)]) -> Vec<&'a ModuleToken> {
    tokens.iter().map(|(_, token)| token).collect()
}

fn search(suite: &mut Suite, tokens: &[(&Row, ModuleToken)], home: Home, size: usize) {
    let targets = targets(tokens);
    for what in FINDABLE {
        suite.compare(&search_group(home, what, size), None, || {
            rows_of(&targets, |target| target.searching(what, size))
        });
    }
}

fn search_group(home: Home, what: Findable, size: usize) -> String {
    format!("search/{}/{}/{size}", home.name(), what.name())
}

fn first_use_group(size: usize) -> String {
    format!("first-use/{size}")
}
