//! Many processes of many threads, on one token or on more tokens than may be open: create, find,
//! sign, destroy.

use super::*;
use crate::many::{client, tokens_of, user};

/// In each group of this number of rounds, one round leaves its object.
const LEFT: usize = 8;

/// The number of tokens, of processes, and of threads of each process.
type Sizes = (usize, usize, usize);

/// Runs the threads. Prints the labels of the remaining objects, and the number of rounds.
pub fn child() {
    let ((tokens, _, threads), name, seed): (Sizes, String, u64) = argument();
    let (client, slots) = client(&directory(), tokens);
    let keys: Vec<_> = slots
        .iter()
        .map(|slot| client.find_one(user(&client, *slot, PIN), &none().label("shared").flag(A::SIGN, true)))
        .collect();
    ready();
    let end = Instant::now() + time(tokens);
    let (client, slots, keys, name) = (&client, &slots, &keys, &name);
    let rounds: usize = std::thread::scope(|scope| {
        let work = move |thread: usize| {
            let mut random = Random::seeded(seed.wrapping_add(thread as u64));
            let mut rounds = 0;
            while Instant::now() < end {
                let place = random.below(tokens as u64) as usize;
                let session = client.open_session(slots[place], Access::ReadWrite).expect("a session");
                let label = format!("{name}-{thread}-{rounds}");
                round(client, session, keys[place], &label, rounds % LEFT == 0);
                client.close_session(session).expect("a session");
                rounds += 1;
            }
            rounds
        };
        let running: Vec<_> = (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
        running.into_iter().map(|thread| thread.join().expect("a thread")).sum()
    });
    println!("rounds {rounds}");
}

/// Many tokens take half of the time.
fn time(tokens: usize) -> Duration {
    Duration::from_secs(seconds()) / if tokens == 1 { 1 } else { 2 }
}

fn round(client: &Client, session: SessionHandle, shared: ObjectHandle, label: &str, left: bool) {
    let mechanism = plain(M::ECDSA_SHA256);
    client.sign(session, &mechanism, shared, label.as_bytes()).expect("a signature");
    let mut made = if left {
        vec![client.create(session, &data(label).stored().flag(A::PRIVATE, true)).expect("data")]
    } else {
        let (public, private) = pair(client, session, Kind::P256, &none().stored().label(label));
        let signature = client.sign(session, &mechanism, private, b"data").expect("a signature");
        assert_eq!(client.verify(session, &mechanism, public, b"data", &signature), Ok(()));
        vec![public, private]
    };
    made.sort_unstable();
    assert_eq!(client.find(session, &none().label(label)), made);
    if left {
        println!("left {label}");
        return;
    }
    made.iter().for_each(|object| client.destroy_object(session, *object).expect("an object"));
    assert_eq!(client.find(session, &none().label(label)), []);
}

pub fn case(sizes: Sizes) {
    let (tokens, processes, threads) = sizes;
    let directory = tokens_of(tokens, PIN);
    let (one, slots) = client(&directory, tokens);
    for slot in &slots {
        pair(&one, user(&one, *slot, PIN), Kind::P256, &none().stored().label("shared"));
    }
    let seed = Random::new("JETON_CRASH_SEED").below(u64::MAX);
    let start = |place: usize| {
        // Each process adds the numbers of its threads to its seed.
        let seed = seed.wrapping_add((place * threads) as u64);
        Process::start("load", &directory, (sizes, format!("p{place}"), seed))
    };
    let said = together(processes, start).concat();
    let rounds: u64 = numbers(&said, "rounds ").iter().sum();
    let left = texts(&said, "left ");
    // The module from before the load and a new module see the same objects.
    assert_eq!(labels(&one, &slots), left);
    one.finalize().expect("a module");
    let (other, slots) = client(&directory, tokens);
    for slot in &slots {
        user(&other, *slot, PIN);
    }
    assert_eq!(labels(&other, &slots), left);
    println!(
        "{processes} processes of {threads} threads on {tokens} tokens, {:?}: {rounds} rounds without an error, {} \
         objects left and found",
        time(tokens),
        left.len()
    );
    assert!(rounds as usize >= processes * threads);
}

/// The labels of all objects, without the shared keys. Checks that no label occurs twice.
fn labels(client: &Client, slots: &[SlotId]) -> BTreeSet<String> {
    let mut labels = BTreeSet::new();
    for slot in slots {
        let session = client.open_session(*slot, Access::ReadOnly).expect("a session");
        for object in client.find(session, &none()) {
            let label = client.read(session, object, A::LABEL).expect("a label");
            let label = String::from_utf8(label).expect("text");
            assert!(label == "shared" || labels.insert(label.clone()), "{label} occurs twice");
        }
    }
    labels
}
