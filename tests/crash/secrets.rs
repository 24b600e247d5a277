//! Keys and PINs in the memory of a process: after `C_Logout` and after `C_Finalize` there are none.
//!
//! The secrets are written here only while they are handed over, and wiped then; what is looked for is kept in a form
//! of its own, every byte turned over.

use std::fs::File;
use std::os::unix::fs::FileExt;

use jeton::backend::Provider;
use jeton::id::{AttributeType as A, KeyType, MechanismType as M, ObjectClass, ObjectHandle, SessionHandle};
use jeton::module::{Output, User};
use jeton::object::template::{Given, Raw};
use zeroize::Zeroizing;

use crate::keys::{ED25519, P256, key_object};
use crate::process::{Process, Random, directory, token, unlock, with};
use crate::support::{Attributes, Client, plain};

/// Bytes that are looked for; parts of this length are enough to be one.
const PART: usize = 16;

/// A secret in its turned form.
struct Sought {
    name: &'static str,
    turned: Vec<u8>,
}

impl Sought {
    /// One of so many bytes that nobody else has.
    fn new(name: &'static str, len: usize, random: &mut Random) -> Self {
        Self { name, turned: (0..len).map(|_| random.below(254) as u8 + 1).collect() }
    }

    /// The secret, for as long as it is handed over.
    fn bytes(&self) -> Zeroizing<Vec<u8>> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(self.turned.len()));
        bytes.extend(self.turned.iter().map(|byte| !byte));
        bytes
    }

    /// Its parts, also those of the number in the machine's order of bytes.
    fn parts(&self) -> impl Iterator<Item = Vec<u8>> {
        let backwards: Vec<_> = self.turned.iter().rev().copied().collect();
        let parts = |bytes: Vec<u8>| bytes.chunks_exact(PART).map(<[u8]>::to_vec).collect::<Vec<_>>();
        parts(self.turned.clone()).into_iter().chain(parts(backwards))
    }
}

/// Where in this process' memory parts of a secret stand.
fn scan(all: &[Sought]) -> Vec<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("a proc file system");
    let memory = File::open("/proc/self/mem").expect("a proc file system");
    let parts: Vec<_> =
        all.iter().flat_map(|sought| sought.parts().map(move |part| (sought.name, part))).collect();
    let mut found = Vec::new();
    let first: Vec<_> = (0..=u8::MAX).map(|byte| parts.iter().any(|(_, part)| part[0] == !byte)).collect();
    let mut pages = Zeroizing::new(vec![0u8; 1 << 16]);
    let own = pages.as_ptr_range();
    let own = own.start as u64..own.end as u64;
    for line in
        maps.lines().filter(|line| line.split(' ').nth(1).is_some_and(|rights| rights.starts_with("rw")))
    {
        let (start, end) = line.split(' ').next().and_then(|range| range.split_once('-')).expect("a range");
        let [start, end] = [start, end].map(|text| u64::from_str_radix(text, 16).expect("an address"));
        let mut at = start;
        while at < end {
            let len = pages.len().min((end - at) as usize);
            // What cannot be read (a guard page) holds nothing.
            let Ok(()) = memory.read_exact_at(&mut pages[..len], at) else { break };
            for (offset, window) in pages[..len].windows(PART).enumerate() {
                let place = at + offset as u64;
                if !first[usize::from(window[0])] || own.contains(&place) {
                    continue;
                }
                let area = line.split_whitespace().nth(5).unwrap_or("anonymous");
                let turned = |part: &[u8]| part.iter().zip(window).all(|(turned, byte)| *turned == !*byte);
                let hits = parts.iter().filter(|(_, part)| turned(part));
                found.extend(hits.map(|(name, _)| format!("{name} at {place:#x}, {area}")));
            }
            if at + len as u64 >= end {
                break;
            }
            // A part may lie across.
            at += (len - PART + 1) as u64;
        }
    }
    found
}

fn import(client: &Client, session: SessionHandle, sort: &Attributes, value: &[u8]) -> ObjectHandle {
    let mut template = sort.template();
    template.0.push(Given { id: A::VALUE, value: Raw::Bytes(value) });
    client.module.create_object(session, &template).expect("a key")
}

/// What is done with the keys while somebody is logged in.
fn use_keys(client: &Client, session: SessionHandle) {
    let found = client.find(session, &Attributes::of(ObjectClass::SECRET_KEY));
    assert_eq!(found.len(), 1);
    client.module.encrypt_init(session, &plain(M::AES_ECB), found[0]).expect("an operation");
    client.module.encrypt(session, &[0; 32], Output::Buffer(&mut [0; 32])).expect("a ciphertext");
    client.sign(session, &plain(M::AES_CMAC), found[0], b"data").expect("a code");
    for (sort, mechanism) in [(KeyType::EC, M::ECDSA_SHA256), (KeyType::EC_EDWARDS, M::EDDSA)] {
        let key = client.find_one(session, &key_object(ObjectClass::PRIVATE_KEY, sort));
        client.sign(session, &plain(mechanism), key, b"data").expect("a signature");
    }
}

pub fn child() {
    let name = std::env::var("JETON_CRASH_NAME").expect("a backend");
    let provider = Provider::named(&name).expect("a backend");
    let client = with(&directory(), 10, provider);
    let mut random = Random::new();
    let mut sought =
        ["an AES key", "an EC scalar", "an Ed25519 seed", "a PIN", "its successor", "a wrong PIN"]
            .map(|name| Sought::new(name, 32, &mut random));
    // Less than the order of the curve, and no zero.
    sought[1].turned[0] = 0xee;
    let [aes, scalar, seed, pin, successor, wrong] = &sought;

    unlock(&client, &pin.bytes());
    let session = client.open();
    let log_in = |pin: &Sought| client.module.login(session, User::User, &pin.bytes());
    log_in(wrong).expect_err("a wrong PIN");
    log_in(pin).expect("the user");
    let secret = key_object(ObjectClass::SECRET_KEY, KeyType::AES).stored().flag(A::SENSITIVE, true);
    import(&client, session, &secret, &aes.bytes());
    let private = key_object(ObjectClass::PRIVATE_KEY, KeyType::EC).stored().bytes(A::EC_PARAMS, P256);
    import(&client, session, &private, &scalar.bytes());
    let private =
        key_object(ObjectClass::PRIVATE_KEY, KeyType::EC_EDWARDS).stored().bytes(A::EC_PARAMS, ED25519);
    import(&client, session, &private, &seed.bytes());
    client.module.set_pin(session, &pin.bytes(), &successor.bytes()).expect("a PIN");
    use_keys(&client, session);
    println!("found {}", scan(&sought).len());
    client.module.logout(session).expect("the user");
    tell("after C_Logout", &sought);

    log_in(successor).expect("the user");
    use_keys(&client, session);
    client.module.finalize().expect("a module");
    tell("after C_Finalize", &sought);
}

fn tell(when: &str, sought: &[Sought]) {
    scan(sought).into_iter().for_each(|place| println!("{when}: {place}"));
}

pub fn case() {
    let mut left = Vec::new();
    for provider in Provider::ALL {
        let directory = token();
        let more = [("JETON_CRASH_NAME", provider.name.to_owned())];
        let said = Process::start("secrets", &directory, &more).wait();
        let found = said.iter().find_map(|line| line.strip_prefix("found ")).expect("a count");
        println!("{}: parts of secrets found while they are used: {found}", provider.name);
        assert_ne!(found, "0", "the scan finds nothing");
        let places = said.into_iter().filter(|line| line.starts_with("after "));
        left.extend(places.map(|line| format!("{}: {line}", provider.name)));
    }
    assert!(left.is_empty(), "secrets left in memory:\n{}", left.join("\n"));
    println!("after C_Logout and C_Finalize: none");
}
