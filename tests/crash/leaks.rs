//! Keys that are generated, used and destroyed leak no memory.

use super::*;

/// In each group of this number of key pairs, one pair consists of token objects. The others are
/// session objects.
const STORED: u64 = 500;
/// The number of rounds after which the process has allocated the memory that the work needs.
const WARM_UP: u64 = 2000;
/// The allowed growth of resident memory at the end.
const LIMIT_KIB: u64 = 1024;

/// Resident memory in KiB (proc(5), `VmRSS`).
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a proc file system");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

pub fn child() {
    let client = client(&directory(), u32::MAX);
    let session = client.user();
    let rounds = number("JETON_CRASH_SIGNATURES", 3000);
    let secret = key_object(ObjectClass::SECRET_KEY, KeyType::GENERIC_SECRET).bytes(A::VALUE, &[7; 32]);
    let round = |number: u64| {
        let both = if number.is_multiple_of(STORED) { none().stored() } else { none() };
        let (public, private) = pair(&client, session, Kind::Ed25519, &both.label(&format!("{number}")));
        client.sign(session, &plain(M::EDDSA), private, b"data").expect("a signature");
        let code = client.create(session, &secret).expect("a key");
        client.sign(session, &plain(M::SHA256_HMAC), code, b"data").expect("a code");
        for object in [public, private, code] {
            client.destroy_object(session, object).expect("an object");
        }
    };
    (0..WARM_UP).for_each(round);
    let before = resident();
    (0..rounds).for_each(round);
    println!("{before} {}", resident());
}

pub fn case() {
    let rounds: u64 = number("JETON_CRASH_SIGNATURES", 3000);
    let directory = token();
    let said = Process::start("leaks", &directory, ()).wait();
    let (before, after) = said[0].split_once(' ').expect("two numbers");
    let [before, after] = [before, after].map(|text| text.parse::<u64>().expect("a number"));
    println!("{rounds} rounds of create, sign, destroy: {before} KiB resident before, {after} KiB after");
    assert!(after <= before + LIMIT_KIB);
}
