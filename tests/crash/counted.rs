//! `kill -9` of processes that sign with keys whose uses are counted: no one-time key signs twice,
//! and a limit is never exceeded.

use std::collections::BTreeSet;
use std::ffi::c_ulong;
use std::time::Duration;

use jeton::error::Error;
use jeton::id::{AttributeType as A, MechanismType as M, ObjectClass};

use crate::process::{Process, Random, argument, client, directory, rounds, token, unlock};
use crate::support::{Attributes, Client, none, plain};
use crate::worker::log_in;

const WORKERS: usize = 4;
/// LMS_SHA256_M32_H15 above LMS_SHA256_M32_H5, and LMOTS_SHA256_N32_W4 (RFC 8554, 5.1 and 4.1).
const TYPES: [[u64; 2]; 2] = [[7, 5], [3, 3]];
/// The place of the number of the lower one-time key in a signature: after the upper signature and
/// the lower public key.
const LOWER: usize = 4 + 2668 + 56;
/// The number of keys of a lower tree.
const LEAVES: u32 = 1 << 5;

/// Signs with both keys until it is killed. Prints the number of each one-time key, and `use` for
/// each signature with the limited key. The argument is the number of uses of one commit.
pub fn child() {
    let reserve: u64 = argument();
    let client = Client::beside(
        &directory(),
        jeton::backend::Provider::ALL[0],
        &format!(", stateful = {{ reserve = {reserve} }}"),
    );
    let session = client.open();
    log_in(&client, session, 0);
    let find = |label| client.find_one(session, &Attributes::of(ObjectClass::PRIVATE_KEY).label(label));
    let (stateful, limited) = (find("stateful"), find("limited"));
    loop {
        let signature = client.sign(session, &plain(M::HSS), stateful, b"message").expect("a signature");
        let number = |at: usize| u32::from_be_bytes(signature[at..at + 4].try_into().expect("a number"));
        println!("{}", number(4) * LEAVES + number(LOWER));
        match client.sign(session, &plain(M::ECDSA_SHA256), limited, b"message") {
            Ok(_) => println!("use"),
            Err(error) => assert_eq!(error, Error::KeyExhausted),
        }
    }
}

fn make_keys(client: &Client, limit: u64) {
    let session = client.open();
    log_in(client, session, 0);
    let numbers = |numbers: [u64; 2]| -> Vec<u8> {
        numbers.iter().flat_map(|number| (*number as c_ulong).to_ne_bytes()).collect()
    };
    let [lms, ots] = TYPES.map(numbers);
    let stateful = none()
        .number(A::HSS_LEVELS, 2)
        .bytes(A::HSS_LMS_TYPES, &lms)
        .bytes(A::HSS_LMOTS_TYPES, &ots)
        .label("stateful");
    let limited = none().number(A::JETON_USES_LEFT, limit).label("limited");
    let p256 = none().bytes(A::EC_PARAMS, b"\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07");
    for (mechanism, public, private) in
        [(M::HSS_KEY_PAIR_GEN, none(), stateful), (M::EC_KEY_PAIR_GEN, p256, limited)]
    {
        let (public, private) = (public.stored(), private.stored());
        let pair = client.module.generate_key_pair(
            session,
            &plain(mechanism),
            &public.template(),
            &private.template(),
        );
        pair.expect("a pair");
    }
}

pub fn case() {
    let rounds = rounds();
    // So few that they are used up while processes are killed.
    let limit = 2 * rounds;
    let directory = token();
    let first = client(&directory, u32::MAX);
    unlock(&first, &crate::worker::pin(0));
    make_keys(&first, limit);
    let mut random = Random::new();
    let start = |random: &mut Random| {
        let reserve = [1, 1, 5][random.below(3) as usize];
        Process::start("counted", &directory, reserve)
    };
    let mut workers: Vec<_> = (0..WORKERS).map(|_| start(&mut random)).collect();
    let (mut numbers, mut uses, mut kills) = (BTreeSet::new(), 0, 0);
    let mut count = |said: Vec<String>| {
        for line in said {
            match line.parse::<u32>() {
                Ok(number) => assert!(numbers.insert(number), "the one-time key {number} signed twice"),
                Err(_) if line == "use" => uses += 1,
                // The end of the process cut the line off.
                Err(_) => {}
            }
        }
        assert!(uses <= limit, "{uses} uses of {limit}");
    };
    while kills < rounds {
        std::thread::sleep(Duration::from_millis(random.below(150)));
        let place = random.below(WORKERS as u64) as usize;
        let killed = std::mem::replace(&mut workers[place], start(&mut random));
        count(killed.kill());
        kills += 1;
    }
    workers.into_iter().for_each(|worker| count(worker.kill()));
    println!("{kills} kills of {WORKERS} processes: {} one-time keys signed, none twice", numbers.len());
    println!("{uses} uses of a key with a limit of {limit}");
}
