//! Keys and PINs in the memory of a process: none remains after `C_Logout` and after `C_Finalize`,
//! for every type of key and every mechanism.
//!
//! A parent generates the keys and passes them to a child in a form that the scan does not find.
//! The child logs in, uses one key with one mechanism, must find the key in its memory, logs out,
//! and must not find it.

use argon2::{Algorithm, Argon2, Params as Cost, Version};
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use jeton::backend::des3;
use jeton::id::mechanism_flag;
use jeton::mechanism::{self, Action, MechanismRow};
use jeton::object::attribute::{self, Need, ObjectTypes, secret_class};
use rusqlite::{Connection, OpenFlags};

use super::*;
use crate::scan::{Scanner, Sought, Turned};
use crate::uses::{Fixture, generate};

#[derive(Serialize, Deserialize)]
struct Plan {
    /// The SO PIN, the user PIN, the next user PIN, and a wrong PIN.
    pins: [Turned; 4],
    samples: Vec<Sample>,
    /// The public value of each key pair, by the name of the pair. A key agreement with the pair
    /// takes it as the public value of the peer.
    peers: BTreeMap<String, Turned>,
}

/// A private key with its public one, or a secret key.
#[derive(Serialize, Deserialize)]
struct Sample {
    name: String,
    key: Vec<(u64, Turned)>,
    public: Vec<(u64, Turned)>,
    secrets: Vec<Sought>,
}

/// Words, separated by commas. The test uses the keys whose names contain one of them. Unset means
/// all keys.
const KEYS: &str = "JETON_CRASH_KEYS";
const PLAN: &str = "plan.json";

fn kinds() -> Vec<Kind> {
    let mut kinds: Vec<_> =
        Kind::PAIRS.into_iter().chain(Kind::AGREEING).chain(Kind::ENCAPSULATING).collect();
    kinds.push(Kind::Dh);
    let mut known = BTreeSet::new();
    kinds.retain(|kind| known.insert(format!("{kind:?}")));
    kinds
}

const SECRETS: [(&str, KeyType, usize); 14] = [
    ("AES-128", KeyType::AES, 16),
    ("AES-192", KeyType::AES, 24),
    ("AES-256", KeyType::AES, 32),
    ("AES-XTS", KeyType::AES_XTS, 64),
    ("ChaCha20", KeyType::CHACHA20, 32),
    ("generic", KeyType::GENERIC_SECRET, 48),
    ("a long generic one", KeyType::GENERIC_SECRET, 300),
    ("HMAC-SHA-1", KeyType::SHA_1_HMAC, 32),
    ("HMAC-SHA-256", KeyType::SHA256_HMAC, 32),
    ("HMAC-SHA-512", KeyType::SHA512_HMAC, 64),
    ("HMAC-SHA3-256", KeyType::SHA3_256_HMAC, 32),
    ("HKDF", KeyType::HKDF, 32),
    ("DES3", KeyType::DES3, 24),
    ("HOTP", KeyType::HOTP, 32),
];

fn secret_sample((name, key_type, len): (&str, KeyType, usize), random: &mut Random) -> Sample {
    let mut value: Vec<_> = (0..len).map(|_| random.below(256) as u8).collect();
    match key_type {
        KeyType::DES3 => des3::set_parity(&mut value),
        // A pre-master secret begins with a version.
        KeyType::GENERIC_SECRET => value[..2].copy_from_slice(&[3, 3]),
        _ => (),
    }
    let object = key_object(secret_class(key_type), key_type).and(&shown()).bytes(A::VALUE, &value);
    let key = object.ids().map(|id| (id.0, Turned::of(object.value(id)))).collect();
    Sample { name: name.into(), key, public: Vec::new(), secrets: vec![Sought::new(name, &value)] }
}

fn pair_sample(client: &Client, session: SessionHandle, kind: Kind) -> (Sample, Vec<u8>) {
    let made = client.generate(session, kind.generator(), &kind.request(), &shown()).expect("a pair");
    let half = |class, object: ObjectHandle| {
        let object_type = ObjectTypes::of(class, Some(kind.key_type().0)).expect("an object type");
        let wanted = attribute::rules(object_type).filter(|rule| rule.create == Need::Must || rule.secret);
        wanted
            .filter_map(|rule| Some((rule, client.read(session, object, rule.id).ok()?)))
            .filter(|(_, value)| !value.is_empty())
            .collect::<Vec<_>>()
    };
    let public = half(ObjectClass::PUBLIC_KEY, made.0);
    let private = half(ObjectClass::PRIVATE_KEY, made.1);
    let name = format!("{kind:?}");
    // The private keys of ML-KEM and ML-DSA contain digests of the public key.
    let public_value = public.iter().find(|(rule, _)| [A::VALUE, A::EC_POINT].contains(&rule.id));
    let key = public_value.map(|(_, value)| value.clone()).unwrap_or_default();
    let (mut sha3, mut shake) = ([0; 32], [0; 64]);
    for (hash, out) in [(Hash::Sha3_256, &mut sha3[..]), (Hash::Shake256, &mut shake[..])] {
        Provider::ALL[0].digest.hash(hash, &key, out).expect("a digest");
    }
    let known: Vec<&[u8]> =
        public.iter().map(|(_, value)| &value[..]).chain([&sha3[..], &shake[..]]).collect();
    let secrets = private.iter().filter(|(rule, _)| rule.secret).map(|(rule, value)| {
        let sought = Sought::new(format!("{name} {}", rule.id), value);
        known.iter().fold(sought, |sought, public| sought.but(public))
    });
    let turned = |half: &[(_, Vec<u8>)]| -> Vec<(u64, Turned)> {
        half.iter()
            .map(|(rule, value): &(&attribute::Rule, Vec<u8>)| (rule.id.0, Turned::of(value)))
            .collect()
    };
    let secrets = secrets.collect();
    let mut sample = Sample { name, secrets, key: turned(&private), public: turned(&public) };
    // CKM_ECDH_AES_KEY_WRAP: keys on curves neither wrap nor unwrap by default.
    if [KeyType::EC, KeyType::EC_MONTGOMERY].contains(&kind.key_type()) {
        sample.key.push((A::UNWRAP.0, Turned::of(&[1])));
        sample.public.push((A::WRAP.0, Turned::of(&[1])));
    }
    for (id, value) in [(A::SENSITIVE, 0), (A::EXTRACTABLE, 1)] {
        sample.key.push((id.0, Turned::of(&[value])));
    }
    (sample, key)
}

/// Computes the key of a PIN record in the store's file, and unwraps the token key. Returns both.
fn unwrap(directory: &Directory, column: &str, pin: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let store = Connection::open_with_flags(directory.file("jeton"), flags).expect("a store");
    let (serial, record): (String, Vec<u8>) = store
        .query_row(&format!("SELECT serial, {column} FROM token"), [], |row| Ok((row.get(0)?, row.get(1)?)))
        .expect("a token");
    let (memory, passes, salt, wrapped): (u32, u32, [u8; 16], Vec<u8>) =
        postcard::from_bytes(&record).expect("a record of a PIN");
    let mut key = vec![0; 32];
    let context =
        [&wrapped[..2], &memory.to_le_bytes(), &passes.to_le_bytes(), &salt, serial.as_bytes()].concat();
    if memory == 0 {
        let Provider { macs, ciphers, .. } = Provider::ALL[0];
        let salt = [&salt[..], &(pin.len() as u64).to_le_bytes()].concat();
        macs.pbkdf2(Hash::Sha256, pin, &salt, passes, &mut key).expect("a key");
        let (nonce, body) = wrapped[2..].split_at(12);
        let (body, tag) = body.split_at(body.len() - 16);
        let mut opened = vec![0; body.len()];
        let mut aead = ciphers.aead(AeadScheme::AesGcm, &key).expect("a cipher");
        aead.open(nonce, &context, body, tag, &mut opened).expect("the token key");
        return (key, opened);
    }
    let cost = Cost::new(memory, passes, 1, Some(32)).expect("a cost");
    let argon = Argon2::new(Algorithm::Argon2id, Version::V0x13, cost);
    argon.hash_password_into(pin, &salt, &mut key).expect("a key");
    let nonce: [u8; 24] = wrapped[2..26].try_into().expect("a nonce");
    let opened = XChaCha20Poly1305::new_from_slice(&key)
        .expect("a key")
        .decrypt(&XNonce::from(nonce), Payload { msg: &wrapped[26..], aad: &context });
    (key, opened.expect("the token key"))
}

/// In a separate process: decrypts the PIN records, and prints their secrets with all bits
/// inverted.
pub fn unwrap_child() {
    let directory = directory();
    let plan = Plan::read(&directory);
    let (so, _) = unwrap(&directory, "so_pin", &plan.pins[0].bytes());
    let (user, token) = unwrap(&directory, "user_pin", &plan.pins[argument::<usize>()].bytes());
    let sought = [
        Sought::new("the token key", &token),
        Sought::new("the key of the user's PIN", &user),
        Sought::new("the key of the SO's PIN", &so),
    ];
    println!("{}", serde_json::to_string(&sought).expect("text"));
}

fn hidden_by(directory: &Directory, pin: usize) -> Vec<Sought> {
    let said = Process::start("unwrap", directory, pin).wait();
    serde_json::from_str(said.last().expect("a line")).expect("secrets")
}

impl Plan {
    fn new(client: &Client, session: SessionHandle, random: &mut Random) -> Self {
        let mut samples: Vec<_> = SECRETS.into_iter().map(|key| secret_sample(key, random)).collect();
        let mut peers = BTreeMap::new();
        for kind in kinds() {
            let (sample, public) = pair_sample(client, session, kind);
            peers.insert(sample.name.clone(), Turned::of(&public));
            samples.push(sample);
        }
        let pins =
            [(); 4].map(|()| Turned::of(&(0..32).map(|_| random.below(254) as u8 + 1).collect::<Vec<_>>()));
        Self { pins, samples, peers }
    }

    fn read(directory: &Directory) -> Self {
        let text = std::fs::read(directory.path().join(PLAN)).expect("a plan");
        serde_json::from_slice(&text).expect("a plan")
    }
}

struct Run {
    client: Client,
    plan: Plan,
    parameters: String,
    /// The PINs, the token key and the keys that wrap it.
    always: Vec<Sought>,
    leaks: usize,
    /// Which mechanisms were used, and why others were not.
    used: BTreeSet<M>,
    refused: BTreeMap<M, String>,
}

impl Run {
    fn new(directory: &Arc<Directory>, provider: &str) -> Self {
        let parameters = format!(
            "token-dir = '{}', backend = '{provider}', pin = {{ memory-kib = 8, passes = 1 }}, \
             mechanisms = {{ legacy = true }}, lanes = true",
            directory.path().display()
        );
        let client = Client::start(directory, &parameters).expect("a module");
        let plan = Plan::read(directory);
        let names = ["the SO's PIN", "the user's PIN", "the user's next PIN", "a wrong PIN"];
        let always = plan.pins.iter().zip(names).map(|(pin, name)| Sought::new(name, &pin.bytes())).collect();
        let (used, refused) = (BTreeSet::new(), BTreeMap::new());
        Self { client, plan, parameters, always, leaks: 0, used, refused }
    }

    fn log_in(&self, user: User, pin: usize) -> SessionHandle {
        let session = self.client.open();
        self.client.module.login(session, user, &self.plan.pins[pin].bytes()).expect("a login");
        session
    }

    fn log_out(&self, session: SessionHandle) {
        self.client.logout(session).expect("a logout");
        self.client.close_session(session).expect("a session");
    }

    /// Reports secrets that should not be in memory.
    fn expect_none(&mut self, when: &str, more: &[Sought]) {
        for (name, parts, place) in Scanner::new(self.always.iter().chain(more)).scan() {
            println!("left {when}: {parts} parts of {name} at {place}");
            self.leaks += 1;
        }
    }

    /// Expects that the scan finds these secrets.
    fn expect(&self, when: &str, all: &[Sought]) {
        let found = Scanner::new(all).scan();
        for sought in all {
            let known = found.iter().any(|(name, ..)| name.starts_with(&sought.name));
            assert!(known, "{when}: the scan does not find {}", sought.name);
        }
    }

    /// Tries a wrong PIN, logs in as the user and as the SO, and lets both change the user's PIN.
    fn pins(&mut self) {
        let session = self.client.open();
        let wrong = self.plan.pins[3].bytes();
        self.client.module.login(session, User::User, &wrong).expect_err("a wrong PIN");
        drop(wrong);
        self.expect_none("after a wrong PIN", &[]);
        self.always.extend(hidden_by(&self.client.directory, 1));
        let session = self.log_in(User::User, 1);
        self.expect("after C_Login", &self.always[4..5]);
        let [old, new] = [1, 2].map(|pin| self.plan.pins[pin].bytes());
        self.client.set_pin(session, &old, &new).expect("a PIN");
        drop((old, new));
        self.log_out(session);
        self.always.extend(hidden_by(&self.client.directory, 2));
        self.expect_none("after C_SetPIN and C_Logout", &[]);
        let session = self.log_in(User::SecurityOfficer, 0);
        self.expect("after the SO's C_Login", &self.always[4..5]);
        let pin = self.plan.pins[1].bytes();
        self.client.init_pin(session, &pin).expect("a PIN");
        drop(pin);
        self.log_out(session);
        self.always.extend(hidden_by(&self.client.directory, 1));
        self.expect_none("after C_InitPIN and C_Logout", &[]);
    }

    /// Creates an object of a sample. Its values are in memory during the call.
    fn create(
        &self,
        session: SessionHandle,
        object: &[(u64, Turned)],
        class: ObjectClass,
        more: &[(A, u8)],
    ) -> ObjectHandle {
        let values: Vec<_> = object.iter().map(|(id, value)| (A(*id), value.bytes())).collect();
        let mut template = Template(Vec::new());
        let class = none().number(A::CLASS, class.0);
        let given = values.iter().any(|(id, _)| *id == A::CLASS);
        if !given {
            template.0.push(Given { id: A::CLASS, value: Raw::Bytes(class.value(A::CLASS)) });
        }
        for (id, value) in &values {
            template.0.push(Given { id: *id, value: Raw::Bytes(value) });
        }
        for (id, value) in more {
            template.0.push(Given { id: *id, value: Raw::Bytes(std::slice::from_ref(value)) });
        }
        self.client.create_object(session, &template).expect("an object")
    }

    fn fixture(&self, session: SessionHandle, sample: &Sample) -> Fixture<'_> {
        let key = self.create(session, &sample.key, ObjectClass::PRIVATE_KEY, &[(A::DERIVE, 1)]);
        let public = match sample.public.is_empty() {
            true => key,
            false => self.create(session, &sample.public, ObjectClass::PUBLIC_KEY, &[(A::PRIVATE, 1)]),
        };
        let other = self.plan.samples.iter().find(|other| other.name == "generic").expect("a key");
        // A key in a parameter of a derivation needs CKA_DERIVE like the base key.
        let other = self.create(session, &other.key[..], ObjectClass::SECRET_KEY, &[(A::DERIVE, 1)]);
        let peer = self.plan.peers.get(&sample.name).map(|peer| peer.bytes().to_vec()).unwrap_or_default();
        Fixture { client: &self.client, session, key, public, other, peer, made: Vec::new() }
    }

    fn other(&self) -> Sought {
        let other = self.plan.samples.iter().find(|other| other.name == "generic").expect("a key");
        other.secrets[0].clone()
    }

    /// Uses a key with every mechanism that accepts it.
    fn sample(&mut self, number: usize) {
        let sample = Sample { ..self.plan.samples.swap_remove(number) };
        self.plan.samples.push(Sample {
            name: sample.name.clone(),
            key: sample.key.clone(),
            public: sample.public.clone(),
            secrets: sample.secrets.clone(),
        });
        let last = self.plan.samples.len() - 1;
        self.plan.samples.swap(number, last);
        let type_of =
            |id: A| sample.key.iter().find(|(known, _)| *known == id.0).map(|(_, value)| value.bytes());
        let key_type = type_of(A::KEY_TYPE)
            .map(|bytes| KeyType(u64::from_ne_bytes(bytes[..].try_into().expect("a number"))));
        let mut looked_for = sample.secrets.clone();
        looked_for.push(self.other());
        let mut refused = Vec::new();
        // Finds the mechanisms that accept the key.
        let session = self.log_in(User::User, 1);
        let mut fixture = self.fixture(session, &sample);
        let mut fitting = Vec::new();
        for row in mechanism::all().filter(|row| may_take(row, key_type)) {
            match fixture.work(row) {
                Ok(()) => fitting.push(row),
                Err(reason) => refused.push((row.id, format!("{}: {reason:?}", sample.name))),
            }
        }
        drop(fixture);
        for (id, reason) in refused {
            // An error for a key of another type does not describe the mechanism.
            let kept = self.refused.entry(id).or_insert_with(|| reason.clone());
            if !reason.contains("TypeInconsistent") {
                *kept = reason;
            }
        }
        self.log_out(session);
        for row in fitting {
            let session = self.log_in(User::User, 1);
            let mut fixture = self.fixture(session, &sample);
            let outcome = fixture.work(row);
            let made = std::mem::take(&mut fixture.made);
            let what = format!("{} with {}", row.id, sample.name);
            match outcome {
                Ok(()) => {
                    self.used.insert(row.id);
                    self.expect(&what, &sample.secrets);
                }
                Err(reason) => drop(self.refused.insert(row.id, format!("{}: {reason:?}", sample.name))),
            }
            self.log_out(session);
            let all: Vec<_> = looked_for.iter().chain(&made).cloned().collect();
            self.expect_none(&format!("after C_Logout, {what}"), &all);
        }
        // Store the key as a token object, copy it, load it at a login, and destroy it.
        let session = self.log_in(User::User, 1);
        let class = if sample.public.is_empty() { ObjectClass::SECRET_KEY } else { ObjectClass::PRIVATE_KEY };
        let stored = self.create(session, &sample.key, class, &[(A::TOKEN, 1)]);
        self.client.copy(session, stored, &none().flag(A::TOKEN, false)).expect("a copy");
        self.log_out(session);
        self.expect_none(&format!("after C_Logout, {} stored and copied", sample.name), &looked_for);
        let session = self.log_in(User::User, 1);
        for key in self.client.find(session, &none().flag(A::TOKEN, true)) {
            self.client.read(session, key, A::PUBLIC_KEY_INFO).ok();
            self.client.destroy_object(session, key).expect("an object");
        }
        self.log_out(session);
        self.expect_none(&format!("after C_Logout, {} destroyed", sample.name), &looked_for);
        // Use the key with all mechanisms, and call C_Finalize without a logout.
        let session = self.log_in(User::User, 1);
        let mut fixture = self.fixture(session, &sample);
        for row in mechanism::all().filter(|row| may_take(row, key_type)) {
            let _ = fixture.work(row);
        }
        let made = std::mem::take(&mut fixture.made);
        self.expect(&sample.name, &sample.secrets);
        self.client.finalize().expect("a module");
        let all: Vec<_> = looked_for.iter().chain(&made).cloned().collect();
        self.expect_none(&format!("after C_Finalize, {}", sample.name), &all);
        self.client.initialize(Some(&self.parameters)).expect("a module");
    }

    fn generated(&mut self, wanted: &str) {
        let makes = |row: &&MechanismRow| matches!(row.action, Action::Generate | Action::GeneratePreMaster);
        for row in mechanism::all().filter(makes).filter(|row| is_wanted(wanted, &row.id.to_string())) {
            let session = self.log_in(User::User, 1);
            let made =
                generate(&self.client, session, row).unwrap_or_else(|error| panic!("{}: {error:?}", row.id));
            self.expect(&row.id.to_string(), &made);
            self.log_out(session);
            self.expect_none(&format!("after C_Logout, {}", row.id), &made);
        }
        for kind in kinds().into_iter().filter(|kind| is_wanted(wanted, &format!("{kind:?}"))) {
            let session = self.log_in(User::User, 1);
            let (sample, _) = pair_sample(&self.client, session, kind);
            self.expect(&sample.name, &sample.secrets);
            self.log_out(session);
            self.expect_none(&format!("after C_Logout, {} generated", sample.name), &sample.secrets);
        }
    }
}

/// Returns whether the name contains one of the wanted words. An empty list accepts all names.
fn is_wanted(words: &str, name: &str) -> bool {
    words.is_empty() || words.split(',').any(|word| name.contains(word))
}

fn may_take(row: &MechanismRow, key_type: Option<KeyType>) -> bool {
    match row.action {
        // No template sets the seed of an HSS key and no call reads it, so it cannot be sought.
        _ if row.flags == mechanism_flag::VERIFY || row.id == M::HSS => false,
        Action::Generate | Action::GenerateParameters => false,
        Action::GeneratePair | Action::GeneratePairFromExtraBits => false,
        Action::GenerateFromPassword | Action::GeneratePreMaster => false,
        Action::Digest(_) | Action::MlDsaMu => key_type == Some(KeyType::GENERIC_SECRET),
        _ => true,
    }
}

pub fn child() {
    let mut run = Run::new(&directory(), &argument::<String>());
    run.pins();
    let wanted: String = number(KEYS, String::new());
    for number in 0..run.plan.samples.len() {
        if is_wanted(&wanted, &run.plan.samples[number].name) {
            run.sample(number);
        }
    }
    run.generated(&wanted);
    if !wanted.is_empty() {
        println!("mechanisms {}", run.used.len());
        return;
    }
    let rows = mechanism::all().filter(|row| may_take(row, Some(KeyType::GENERIC_SECRET)));
    let unused: Vec<_> = rows.filter(|row| !run.used.contains(&row.id)).map(|row| row.id).collect();
    let reasons: Vec<_> = unused.iter().map(|id| format!("{id}: {:?}", run.refused.get(id))).collect();
    assert!(unused.is_empty(), "mechanisms that no key was used with: {reasons:#?}");
    println!("mechanisms {}", run.used.len());
}

pub fn case() {
    let mut left = Vec::new();
    let mut random = Random::new("JETON_CRASH_SEED");
    let wanted: String = number("JETON_CRASH_BACKEND", String::new());
    for provider in Provider::ALL.iter().filter(|provider| provider.name.contains(&wanted)) {
        let directory = Directory::new();
        let maker = Client::new(Provider::ALL[0]);
        let plan = Plan::new(&maker, maker.user(), &mut random);
        std::fs::write(directory.path().join(PLAN), serde_json::to_string(&plan).expect("text"))
            .expect("a file");
        set_up(&directory, &plan);
        let said = Process::start("secrets", &directory, provider.name).wait();
        let used = said.iter().find_map(|line| line.strip_prefix("mechanisms ")).expect("a count");
        println!(
            "{}: keys of {} kinds, used by {used} mechanisms, were found while they were used",
            provider.name,
            plan.samples.len()
        );
        let places = said.into_iter().filter(|line| line.starts_with("left "));
        left.extend(places.map(|line| format!("{}: {line}", provider.name)));
    }
    assert!(left.is_empty(), "secrets left in memory:\n{}", left.join("\n"));
    println!("no secret was found after C_Logout and C_Finalize");
}

fn set_up(directory: &Arc<Directory>, plan: &Plan) {
    let module = Functions::new();
    module.initialize(Some(&directory.parameters(Provider::ALL[0], ""))).expect("a module");
    let slot = module.slots().expect("slots").first().copied().unwrap_or(SlotId(0));
    module.init_token(slot, &plan.pins[0].bytes(), LABEL).expect("a token");
    let session = module.open_session(slot, Access::ReadWrite).expect("a session");
    module.login(session, User::SecurityOfficer, &plan.pins[0].bytes()).expect("the SO");
    module.init_pin(session, &plan.pins[1].bytes()).expect("the user's PIN");
    module.finalize().expect("a module");
}
