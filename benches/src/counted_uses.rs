//! Keys whose uses are counted: the generation of LMS keys, and signatures with one use and with
//! several uses in a commit. Writes `docs/benchmarks/counted.md`.

use std::fs::File;
use std::time::Instant;

use cryptoki_sys::*;
use jeton_client::key_types::P256;
use jeton_client::{Access, Attribute, Failure, Mechanism, Module, User, names};
use jeton_laboratory::{Interval, Machine, Table};
use jeton_peers::{PIN, SO_PIN, initialise};

use super::AnyError;
use crate::artefacts::{Artefacts, parameters, temporary, write_page};
use crate::store::{shown, write_to_disk};

const TURNS: usize = 11;
const SIGNATURES: usize = 40;
/// The values of `[stateful] reserve`.
const RESERVES: [u64; 3] = [1, 16, 256];
/// The keys of LMS: the name, the type of the tree (RFC 8554, 5.1) and of the one-time keys (4.1).
const TREES: [(&str, CK_ULONG, CK_ULONG); 3] =
    [("LMS, height 10, W4", 6, 3), ("LMS, height 15, W4", 7, 3), ("LMS, height 20, W4", 8, 3)];
/// As many uses as a limited key of the bench needs.
const ENOUGH: CK_ULONG = 1_000_000;
const MESSAGE: &[u8] = &[0x5a; 32];

/// A key, its mechanism, and the times of its signatures for each of [`RESERVES`].
struct Key {
    name: &'static str,
    mechanism: Mechanism,
    times: [Vec<f64>; RESERVES.len()],
}

pub fn measure(artefacts: &Artefacts) -> Result<(), AnyError> {
    let directory = temporary()?;
    let module = Module::load(&artefacts.module)?;
    let reserved = |reserve: u64| {
        format!("{}, stateful = {{ reserve = {reserve} }}", parameters(directory.path(), "aws-lc"))
    };
    let (mut keys, mut table) = (Vec::new(), Table::new(1, ["key", "generation"]));
    module.initialize(Some(&reserved(1)))?;
    let slot = module.slots(true)?[0];
    initialise(&module, slot, "bench", SO_PIN, PIN)?;
    generate(&module, &mut keys, &mut table)?;
    module.finalize()?;

    let (disk, mut syncs) = (File::create(directory.path().join("disk"))?, Vec::new());
    for _ in 0..TURNS {
        syncs.push(write_to_disk(&disk)?);
        for (place, reserve) in RESERVES.into_iter().enumerate() {
            module.initialize(Some(&reserved(reserve)))?;
            for key in &mut keys {
                let seconds = sign(&module, key)?;
                key.times[place].extend(seconds);
            }
            module.finalize()?;
        }
    }
    let headings = RESERVES.map(|reserve| format!("reserve {reserve}"));
    let mut signatures = Table::new(1, std::iter::once("key".to_owned()).chain(headings));
    for Key { name, times, .. } in keys {
        let figures = times.map(|times| Interval::of(times).map_or_else(String::new, shown));
        println!("{name}: {}", figures.join(", "));
        signatures.add(std::iter::once(name.to_owned()).chain(figures));
    }
    let sync = Interval::of(syncs).map_or_else(String::new, shown);
    let page = [heading(&sync), table.markdown(), "\n".to_owned(), signatures.markdown()];
    write_page("counted.md", &page.concat())
}

fn heading(sync: &str) -> String {
    format!(
        "# Keys whose uses are counted\n\n`cargo run --release -p jeton-benches -- counted` writes this page \
         ([firmware-signing.md](../firmware-signing.md)\ndescribes the keys). A figure is the median of {TURNS} turns \
         with its 95 % interval; the turns of all columns alternate.\nA turn is the mean of {SIGNATURES} signatures \
         (`C_SignInit` and `C_Sign`) after a first one, so that it has the commits of its\nsignatures. One commit takes \
         `reserve` uses. A write of 4 KiB and `fdatasync`, without Jeton, takes\n{sync}. A key is generated once, with \
         all processors. That of height 10 has\none-time keys for the first turns only.\n\n{}\n\n",
        Machine::this()
    )
}

fn generate(module: &Module, keys: &mut Vec<Key>, table: &mut Table) -> Result<(), Failure> {
    let session = module.open_session(module.slots(true)?[0], Access::ReadWrite)?;
    session.login(User::User, Some(PIN))?;
    let mut make = |name: &'static str,
                    [generation, signing]: [CK_MECHANISM_TYPE; 2],
                    public: &[Attribute],
                    private: &[Attribute]| {
        let mut common = vec![Attribute::flag(CKA_TOKEN, true), Attribute::bytes(CKA_LABEL, name)];
        let public = [&common[..], public].concat();
        common.push(Attribute::flag(CKA_SIGN, true));
        let start = Instant::now();
        session.generate_key_pair(&Mechanism::new(generation), &public, &[&common[..], private].concat())?;
        let time = jeton_laboratory::figure::time(start.elapsed().as_secs_f64());
        println!("generation of {name}: {time}");
        table.add([name.to_owned(), time]);
        let times = Default::default();
        keys.push(Key { name, mechanism: Mechanism::new(signing), times });
        Ok::<_, Failure>(())
    };
    for (name, tree, ots) in TREES {
        let levels = [
            Attribute::number(CKA_HSS_LEVELS, 1),
            Attribute::number(CKA_HSS_LMS_TYPES, tree),
            Attribute::number(CKA_HSS_LMOTS_TYPES, ots),
        ];
        make(name, [CKM_HSS_KEY_PAIR_GEN, CKM_HSS], &[], &levels)?;
    }
    let curve = [Attribute::bytes(CKA_EC_PARAMS, P256)];
    let limit = [Attribute::number(names::JETON_USES_LEFT, ENOUGH), Attribute::flag(CKA_EXTRACTABLE, false)];
    for (name, private) in [("P-256 with a limit of uses", &limit[..]), ("P-256 without a limit", &[])] {
        make(name, [CKM_EC_KEY_PAIR_GEN, CKM_ECDSA], &curve, private)?;
    }
    Ok(())
}

/// Returns the mean time of a signature; `None` if the key has too few uses left.
fn sign(module: &Module, key: &Key) -> Result<Option<f64>, Failure> {
    let session = module.open_session(module.slots(true)?[0], Access::ReadWrite)?;
    session.login(User::User, Some(PIN))?;
    let template = [Attribute::number(CKA_CLASS, CKO_PRIVATE_KEY), Attribute::bytes(CKA_LABEL, key.name)];
    let private = session.find(&template)?[0];
    if session.number(private, CKA_HSS_KEYS_REMAINING).is_some_and(|left| left <= 512) {
        return Ok(None);
    }
    let mut signature = [0; 4096];
    let mut one = || {
        session.sign_init(&key.mechanism, private)?;
        session.sign(MESSAGE, &mut signature)
    };
    one()?;
    let start = Instant::now();
    for _ in 0..SIGNATURES {
        one()?;
    }
    Ok(Some(start.elapsed().as_secs_f64() / SIGNATURES as f64))
}
