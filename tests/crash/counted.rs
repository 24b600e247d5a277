//! `kill -9` and power cuts of processes that sign with keys whose uses are counted: no one-time
//! key signs twice, and a limit is never exceeded.

use std::cell::RefCell;
use std::ffi::c_ulong;

use super::*;
use crate::power::Recording;
use crate::worker::{log_in, pin, try_log_in};

const WORKERS: usize = 4;
/// LMS_SHA256_M32_H10 above LMS_SHA256_M32_H5, and LMOTS_SHA256_N32_W4 (RFC 8554, 5.1 and 4.1).
const TYPES: [[u64; 2]; 2] = [[6, 5], [3, 3]];
/// The place of the number of the lower one-time key in a signature: after the upper signature and
/// the lower public key.
const LOWER: usize = 4 + 2508 + 56;
const LEAVES: u32 = 1 << 5;

/// A module that signs with both keys.
pub struct Signer {
    client: Client,
    session: SessionHandle,
    stateful: ObjectHandle,
    limited: ObjectHandle,
}

impl Signer {
    /// Logs in. A commit takes `reserve` uses.
    fn new(directory: &Arc<Directory>, reserve: u64) -> Self {
        Self::try_new(directory, reserve, "").expect("a module")
    }

    /// Like [`new`](Self::new), and adds this text to the module's configuration.
    pub fn try_new(directory: &Arc<Directory>, reserve: u64, more: &str) -> Result<Self> {
        let more = format!(", stateful = {{ reserve = {reserve} }}{more}");
        let client = try_with(directory, u32::MAX, Provider::ALL[0], &more)?;
        let session = client.open_session(client.slot, Access::ReadWrite)?;
        assert!(try_log_in(&client, session, 0)?);
        let find = |label| {
            let mut found = [ObjectHandle(0); 2];
            let wanted = Attributes::of(ObjectClass::PRIVATE_KEY).label(label);
            client.find_init(session, &wanted.template())?;
            assert_eq!(client.module.find(session, &mut found)?, 1);
            client.find_final(session).map(|()| found[0])
        };
        let (stateful, limited) = (find("stateful")?, find("limited")?);
        Ok(Self { client, session, stateful, limited })
    }

    /// Signs with each key. Says the number of the one-time key, and `use` for a signature with the
    /// limited key.
    fn sign(&self, say: impl Fn(String)) {
        self.try_sign(say).expect("two signatures");
    }

    pub fn try_sign(&self, say: impl Fn(String)) -> Result<()> {
        let sign = |id, key| self.client.sign(self.session, &plain(id), key, b"message");
        let signature = sign(M::HSS, self.stateful)?;
        let number = |at: usize| u32::from_be_bytes(signature[at..at + 4].try_into().expect("a number"));
        say((number(4) * LEAVES + number(LOWER)).to_string());
        match sign(M::ECDSA_SHA256, self.limited) {
            Ok(_) => say("use".to_owned()),
            Err(Error::KeyExhausted) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    pub fn left(&self) -> u64 {
        self.client.number(self.session, self.limited, A::JETON_USES_LEFT)
    }
}

/// The uses of both keys by all processes.
pub struct Counts {
    limit: u64,
    pub numbers: BTreeSet<u32>,
    pub uses: u64,
}

impl Counts {
    pub fn new(limit: u64) -> Self {
        Self { limit, numbers: BTreeSet::new(), uses: 0 }
    }

    /// Counts a line of a process. Fails if a one-time key signed twice, or if there are more uses
    /// than the limit allows.
    pub fn add(&mut self, line: &str) -> std::result::Result<(), String> {
        match line.parse() {
            Ok(number) if !self.numbers.insert(number) => {
                return Err(format!("the one-time key {number} signed twice"));
            }
            Err(_) if line == "use" => self.uses += 1,
            // A number, or a line that the end of the process cut off.
            _ => {}
        }
        self.expect_at_most(self.uses)
    }

    pub fn expect_at_most(&self, uses: u64) -> std::result::Result<(), String> {
        if uses > self.limit { Err(format!("{uses} uses of {}", self.limit)) } else { Ok(()) }
    }
}

/// Signs with both keys until it is killed. The argument is the number of uses of one commit.
pub fn child() {
    let signer = Signer::new(&directory(), argument());
    loop {
        signer.sign(|line| println!("{line}"));
    }
}

pub fn make_keys(client: &Client, limit: u64) {
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
        let pair =
            client.generate_key_pair(session, &plain(mechanism), &public.template(), &private.template());
        pair.expect("a pair");
    }
}

/// Makes both keys on a token whose user has the PIN number 0.
fn keys(limit: u64) -> Arc<Directory> {
    let directory = token();
    let first = client(&directory, u32::MAX);
    unlock(&first, &pin(0));
    make_keys(&first, limit);
    first.finalize().expect("a module");
    directory
}

pub fn case() {
    let rounds = rounds();
    // So few that they are used up while processes are killed.
    let limit = 2 * rounds;
    let directory = keys(limit);
    let mut random = Random::new("JETON_CRASH_SEED");
    let start = |random: &mut Random| {
        let reserve = [1, 1, 5][random.below(3) as usize];
        Process::start("counted", &directory, reserve)
    };
    let mut workers: Vec<_> = (0..WORKERS).map(|_| start(&mut random)).collect();
    let (mut counts, mut kills) = (Counts::new(limit), 0);
    let mut count = |said: Vec<String>| said.iter().for_each(|line| counts.add(line).expect("a new use"));
    while kills < rounds {
        std::thread::sleep(pause(&mut random));
        let place = random.below(WORKERS as u64) as usize;
        let killed = std::mem::replace(&mut workers[place], start(&mut random));
        count(killed.kill());
        kills += 1;
    }
    workers.into_iter().for_each(|worker| count(worker.kill()));
    let Counts { numbers, uses, .. } = counts;
    println!("{kills} kills of {WORKERS} processes: {} one-time keys signed, none twice", numbers.len());
    println!("{uses} uses of a key with a limit of {limit}");
}

/// The number of signatures with each key before a power cut.
const SIGNATURES: u64 = 400;
/// The limit of uses: the key is exhausted in the middle of the run.
const LIMIT: u64 = SIGNATURES / 2;
/// The number of signatures with each key after a power cut.
const AFTER: usize = 2;

/// Signs in two modules, one of which takes more than one use in a commit. Then cuts the power at
/// random moments, and signs again. The argument is the seed.
pub fn power_child() {
    let (directory, rounds) = (directory(), rounds());
    let mut random = Random::seeded(argument());
    let recording = Recording::of(&directory, || {
        let signers = [1, 5].map(|reserve| Signer::new(&directory, reserve));
        for _ in 0..SIGNATURES {
            signers[random.below(2) as usize].sign(|line| vfs::note(Event::Said(line)));
        }
        signers.iter().for_each(|signer| signer.client.finalize().expect("a module"));
    });
    let cuts = recording.cut(rounds, &mut random, |built, said| {
        let mut counts = Counts::new(LIMIT);
        said.iter().try_for_each(|line| counts.add(line))?;
        let signer = Signer::new(built, 1);
        let lines = RefCell::new(Vec::new());
        (0..AFTER).for_each(|_| signer.sign(|line| lines.borrow_mut().push(line)));
        lines.take().iter().try_for_each(|line| counts.add(line))?;
        counts.expect_at_most(counts.uses + signer.left())?;
        signer.client.finalize().map_err(|error| format!("{error:?}"))?;
        Ok((counts.numbers.len() as u64, counts.uses as usize))
    });
    println!(
        "{rounds} power cuts: {} one-time keys signed before and after them, none twice, and {} uses, at most {LIMIT} \
         for a cut; on a disk that ignores syncs, {} cuts repeat a use",
        cuts.acknowledged, cuts.objects, cuts.caught
    );
    assert!(cuts.acknowledged > 0 && cuts.caught > 0);
}

pub fn power_case() {
    Process::start("counted power", &keys(LIMIT), Random::new("JETON_CRASH_SEED").below(u64::MAX)).echo();
}
