//! Eight processes of eight threads on one token: create, find, sign, destroy.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use jeton::id::{AttributeType as A, MechanismType as M, ObjectHandle, SessionHandle};

use crate::keys::{Kind, pair};
use crate::process::{Process, client, directory, number, together, token};
use crate::support::{Client, PIN, data, none, plain};

const PROCESSES: usize = 8;
const THREADS: usize = 8;
/// In each group of this number of rounds, one round leaves its object.
const LEFT: usize = 8;

/// Runs eight threads. Prints the labels of the remaining objects, and the number of rounds.
pub fn child() {
    let client = client(&directory(), u32::MAX);
    let session = client.user();
    let name = std::env::var("JETON_CRASH_NAME").expect("a name");
    let time = Duration::from_secs(number("JETON_CRASH_SECONDS", 5));
    crate::process::ready();
    let end = Instant::now() + time;
    let shared = client.find_one(session, &none().label("shared").flag(A::SIGN, true));
    let rounds: usize = std::thread::scope(|scope| {
        let work = |thread: usize| {
            let session = client.open();
            let mut rounds = 0;
            while Instant::now() < end {
                let label = format!("{name}-{thread}-{rounds}");
                round(&client, session, shared, &label, rounds % LEFT == 0);
                rounds += 1;
            }
            rounds
        };
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || work(thread))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread")).sum()
    });
    println!("rounds {rounds}");
}

fn round(client: &Client, session: SessionHandle, shared: ObjectHandle, label: &str, left: bool) {
    let mechanism = plain(M::ECDSA_SHA256);
    client.sign(session, &mechanism, shared, label.as_bytes()).expect("a signature");
    let made = if left {
        vec![client.create(session, &data(label).stored().flag(A::PRIVATE, true)).expect("data")]
    } else {
        let (public, private) = pair(client, session, Kind::P256, &none().stored().label(label));
        let signature = client.sign(session, &mechanism, private, b"data").expect("a signature");
        assert_eq!(client.verify(session, &mechanism, public, b"data", &signature), Ok(()));
        vec![public, private]
    };
    assert_eq!(client.find(session, &none().label(label)), made);
    if left {
        println!("left {label}");
        return;
    }
    made.iter().for_each(|object| client.module.destroy_object(session, *object).expect("an object"));
    assert_eq!(client.find(session, &none().label(label)), []);
}

pub fn case() {
    let directory = token();
    let seconds: u64 = number("JETON_CRASH_SECONDS", 5);
    let one = client(&directory, u32::MAX);
    let session = one.user();
    pair(&one, session, Kind::P256, &none().stored().label("shared"));
    let start = |place: usize| {
        let more = [("JETON_CRASH_NAME", format!("p{place}")), ("JETON_CRASH_SECONDS", seconds.to_string())];
        Process::start("load", &directory, &more)
    };
    let said = together(PROCESSES, start).concat();
    let rounds: u64 = said.iter().filter_map(|line| line.strip_prefix("rounds ")?.parse::<u64>().ok()).sum();
    let left: BTreeSet<_> =
        said.iter().filter_map(|line| line.strip_prefix("left ")).map(str::to_owned).collect();

    // The module from before the load and a new module see the same objects.
    one.module.logout(session).expect("the user");
    one.module.login(session, jeton::module::User::User, PIN).expect("the user");
    let other = client(&directory, u32::MAX);
    for (client, session) in [(&one, session), (&other, other.user())] {
        let mut labels: Vec<_> = client
            .find(session, &none())
            .into_iter()
            .map(|object| client.read(session, object, A::LABEL).expect("a label"))
            .map(|label| String::from_utf8(label).expect("text"))
            .filter(|label| label != "shared")
            .collect();
        labels.sort();
        assert!(labels.iter().eq(left.iter()), "{} objects, {} were left", labels.len(), left.len());
    }
    println!(
        "{PROCESSES} processes of {THREADS} threads, {seconds} s: {rounds} rounds without an error, {} objects left \
         and found",
        left.len()
    );
    assert!(rounds as usize >= PROCESSES * THREADS);
}
