//! A client process: two threads call the module, check each answer, and say what was acknowledged.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use jeton_child::{Random, say};
use jeton_client::Arg;

use crate::common::*;

/// A call ends within this time.
pub const LIMIT: Duration = Duration::from_secs(15);
/// What a busy host adds.
pub const MARGIN: Duration = Duration::from_secs(5);
/// The clock of a client advances by this time.
const TICK: Duration = Duration::from_millis(20);
/// The threads of a client that call.
const THREADS: usize = 2;
/// A thread pauses for at most this number of milliseconds after a step. Writers that never pause
/// keep the lock of the token file from those of the other agent.
const PAUSE: u64 = 50;
/// The most objects of a thread.
const OBJECTS: usize = 20;
/// A thread reports after this number of steps.
const REPORT: u64 = 50;
/// The length of some messages: more than a connection keeps room for.
const LONG: usize = 1_500_000;

/// What a client is started with.
#[derive(Serialize, Deserialize)]
pub struct Role {
    pub parameters: String,
    /// The user that it becomes.
    pub user: Option<u32>,
    /// Begins the labels of its objects.
    pub name: String,
    pub seed: u64,
    /// The public point of the key.
    pub point: Vec<u8>,
    /// Whether there are faults, so that calls may fail.
    pub has_faults: bool,
    /// Whether the disk of the tokens fails.
    pub disk_fails: bool,
    /// Whether a thread waits for events of slots.
    pub waits: bool,
    /// The labels of objects that exist, of a process that was killed.
    pub labels: Vec<String>,
}

/// What a client says.
#[derive(Serialize, Deserialize)]
pub enum Said {
    /// The creation of the object with this label was acknowledged.
    Created(String),
    /// The client is about to destroy this object.
    Destroying(String),
    /// Its destruction was acknowledged.
    Destroyed(String),
    /// The number of calls that returned this code since the last report.
    Calls(BTreeMap<String, u64>),
    /// Something that must not happen.
    Wrong(String),
    Ended,
}

/// What the threads share.
struct Client {
    role: Role,
    module: Module,
    /// Advances only while this process runs, so that a stop by a signal does not count.
    clock: AtomicU64,
    /// The call of each thread: its start and its name.
    calls: [Mutex<Option<(u64, &'static str)>>; THREADS + 1],
    codes: Mutex<BTreeMap<String, u64>>,
    stop: AtomicBool,
}

struct Failed;

/// Returns whether a fault may lead to this code.
fn is_expected(failure: &Failure, role: &Role) -> bool {
    match failure.code {
        _ if !role.has_faults => false,
        CKR_DEVICE_ERROR | CKR_DEVICE_REMOVED | CKR_SESSION_HANDLE_INVALID | CKR_DEVICE_MEMORY => true,
        // SQLite takes a page that it cannot read for a damaged one.
        CKR_TOKEN_NOT_RECOGNIZED => role.disk_fails,
        // `C_Initialize` does not wait for an agent.
        CKR_GENERAL_ERROR => failure.function == "C_Initialize",
        _ => false,
    }
}

/// Says what is wrong, unless it is right.
fn check(is_right: bool, what: impl Into<String>) -> Result<(), Failed> {
    if is_right {
        return Ok(());
    }
    say(&Said::Wrong(what.into()));
    Err(Failed)
}

/// Works until the parent closes the input.
pub fn work(role: Role) -> ! {
    let module = Module::load(Known::JetonAgent.library().expect("the client module")).expect("a module");
    if let Some(user) = role.user {
        // SAFETY: setuid(2) takes a number and has no other precondition.
        assert_eq!(unsafe { libc::setuid(user) }, 0);
    }
    let (clock, calls, codes, stop) = Default::default();
    let client = Arc::new(Client { role, module, clock, calls, codes, stop });
    let spawn = |work: fn(&Client)| {
        let client = Arc::clone(&client);
        thread::spawn(move || work(&client))
    };
    spawn(Client::watch);
    spawn(|client| {
        let _ = jeton_child::heard::<bool>();
        client.stop.store(true, Ordering::Release);
    });
    let initialize = || client.module.initialize(Some(&client.role.parameters));
    while client.call(THREADS, "C_Initialize", initialize).is_err() {
        thread::sleep(TICK);
    }
    if client.role.waits {
        spawn(Client::wait_for_events);
    }
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let client = &client;
            scope.spawn(move || Worker::new(client, thread).run());
        }
    });
    client.report();
    if client.call(THREADS, "C_Finalize", || client.module.finalize()).is_ok() {
        say(&Said::Ended);
    }
    process::exit(0);
}

impl Client {
    /// Ends this process if a call takes too long.
    fn watch(&self) {
        loop {
            thread::sleep(TICK);
            let now = self.clock.fetch_add(1, Ordering::AcqRel);
            for call in &self.calls {
                if let Some((start, name)) = *call.lock().expect("a call")
                    && TICK * now.saturating_sub(start) as u32 > LIMIT + MARGIN
                {
                    say(&Said::Wrong(format!("{name} does not end in time")));
                    process::exit(1);
                }
            }
        }
    }

    /// Waits for events without a limit. The agent must not keep this call after the end of the
    /// process.
    fn wait_for_events(&self) {
        let mut arguments = [Arg::Number(0), Arg::Output(&Arg::zeroed()), Arg::Null];
        while !self.stop.load(Ordering::Acquire) {
            let _ = self.module.call("C_WaitForSlotEvent", &mut arguments);
            thread::sleep(TICK);
        }
    }

    /// Carries out one call of the C interface.
    fn call<T>(
        &self,
        thread: usize,
        name: &'static str,
        call: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failed> {
        let set = |value| *self.calls[thread].lock().expect("a call") = value;
        set(Some((self.clock.load(Ordering::Acquire), name)));
        let outcome = call();
        set(None);
        let code = outcome.as_ref().map_or_else(Failure::code_name, |_| "CKR_OK".to_owned());
        *self.codes.lock().expect("the codes").entry(code).or_default() += 1;
        outcome.map_err(|failure| {
            let _ = check(is_expected(&failure, &self.role), failure.to_string());
            Failed
        })
    }

    fn report(&self) {
        say(&Said::Calls(std::mem::take(&mut *self.codes.lock().expect("the codes"))));
    }
}

/// A thread with a session.
struct Worker<'a> {
    client: &'a Client,
    thread: usize,
    random: Random,
    session: Option<Session>,
    /// The private and the public key.
    keys: [ObjectHandle; 2],
    count: u64,
    /// The labels of token objects that exist, and of the last ones that were destroyed.
    objects: Vec<String>,
    destroyed: Vec<String>,
    /// The labels of the objects of this session.
    of_session: Vec<String>,
}

impl<'a> Worker<'a> {
    fn new(client: &'a Client, thread: usize) -> Self {
        let random = Random::seeded(client.role.seed.wrapping_add(thread as u64));
        let objects = client.role.labels.iter().skip(thread).step_by(THREADS).cloned().collect();
        let (session, count, destroyed, of_session) = Default::default();
        let keys = [ObjectHandle(CK_INVALID_HANDLE); 2];
        Self { client, thread, random, session, keys, count, objects, destroyed, of_session }
    }

    fn run(&mut self) {
        while !self.client.stop.load(Ordering::Acquire) {
            self.count += 1;
            let done = match self.session {
                Some(_) => self.step(),
                None => self.open(),
            };
            if done.is_err() {
                self.close();
            }
            thread::sleep(Duration::from_millis(self.random.below(PAUSE)));
            if self.count.is_multiple_of(REPORT) || done.is_err() {
                self.client.report();
            }
        }
        self.close();
    }

    /// Carries out a call with the session.
    fn call<T>(
        &self,
        name: &'static str,
        call: impl FnOnce(&Session) -> Result<T, Failure>,
    ) -> Result<T, Failed> {
        let session = self.session.as_ref().ok_or(Failed)?;
        self.client.call(self.thread, name, || call(session))
    }

    fn close(&mut self) {
        self.of_session.clear();
        if let Some(session) = self.session.take() {
            // The session is gone in any case.
            let _ = self.client.call(self.thread, "C_CloseSession", || session.close());
        }
    }

    fn open(&mut self) -> Result<(), Failed> {
        let (client, thread) = (self.client, self.thread);
        let slots = client.call(thread, "C_GetSlotList", || client.module.slots(true))?;
        check(!slots.is_empty(), "no token")?;
        let open = || client.module.open_session(slots[0], Access::ReadWrite);
        self.session = Some(client.call(thread, "C_OpenSession", open)?);
        self.call("C_Login", |session| match session.login(User::User, Some(PIN)) {
            // The other thread was first.
            Err(failure) if failure.code == CKR_USER_ALREADY_LOGGED_IN => Ok(()),
            outcome => outcome,
        })?;
        for (key, class) in [CKO_PRIVATE_KEY, CKO_PUBLIC_KEY].into_iter().enumerate() {
            self.keys[key] = self.find_single(&Attribute::number(CKA_CLASS, class), "key")?;
        }
        Ok(())
    }

    fn step(&mut self) -> Result<(), Failed> {
        match self.random.below(16) {
            0..=4 => self.sign(),
            5..=6 => self.digest(),
            7..=9 if self.objects.len() < OBJECTS => self.store(),
            7..=10 => self.destroy(),
            11..=12 => self.look(),
            13..=14 => self.use_session_object(),
            _ => {
                self.close();
                self.open()
            }
        }
    }

    /// Returns data that no other call has.
    fn data(&mut self, len: usize) -> Vec<u8> {
        let name = format!("{} {} {} ", self.client.role.name, self.thread, self.count);
        let random = (0..).map(|_| self.random.below(256) as u8);
        name.into_bytes().into_iter().chain(random).take(len).collect()
    }

    fn sign(&mut self) -> Result<(), Failed> {
        let ([private, public], mechanism) = (self.keys, Mechanism::new(CKM_ECDSA_SHA256));
        let (mut data, mut signature) = (self.data(60), [0; 64]);
        self.call("C_SignInit", |session| session.sign_init(&mechanism, private))?;
        self.call("C_Sign", |session| session.sign(&data, &mut signature))?;
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &self.client.role.point);
        check(key.verify(&data, &signature).is_ok(), "a signature of other data")?;
        let is_valid = self.random.below(2) == 0;
        data[0] ^= u8::from(!is_valid);
        self.call("C_VerifyInit", |session| session.verify_init(&mechanism, public))?;
        let outcome = self.call("C_Verify", |session| session.verify(&data, &signature))?;
        check(outcome == is_valid, "C_Verify with the result of another call")
    }

    fn digest(&mut self) -> Result<(), Failed> {
        let len = if self.random.below(100) == 0 { LONG } else { 100 + self.random.below(20_000) as usize };
        let data = self.data(len);
        self.call("C_DigestInit", |session| session.digest_init(&Mechanism::new(CKM_SHA256)))?;
        let mut hash = [0; 32];
        if self.random.below(2) == 0 {
            self.call("C_Digest", |session| session.digest(&data, &mut hash))?;
        } else {
            for part in data.chunks(len.div_ceil(3)) {
                self.call("C_DigestUpdate", |session| session.digest_update(part))?;
            }
            self.call("C_DigestFinal", |session| session.digest_final(&mut hash))?;
        }
        check(hash == digest(&SHA256, &data).as_ref(), "a digest of other data")
    }

    fn create(&mut self, is_stored: bool) -> Result<String, Failed> {
        let label = format!("{}-{}-{}", self.client.role.name, self.thread, self.count);
        let template = [
            Attribute::number(CKA_CLASS, CKO_DATA),
            Attribute::flag(CKA_TOKEN, is_stored),
            Attribute::flag(CKA_PRIVATE, true),
            Attribute::bytes(CKA_LABEL, label.as_str()),
            Attribute::bytes(CKA_VALUE, value(&label)),
        ];
        self.call("C_CreateObject", |session| session.create_object(&template))?;
        Ok(label)
    }

    fn store(&mut self) -> Result<(), Failed> {
        let label = self.create(true)?;
        say(&Said::Created(label.clone()));
        self.objects.push(label);
        Ok(())
    }

    fn destroy(&mut self) -> Result<(), Failed> {
        let Some(at) = self.any(self.objects.len()) else { return Ok(()) };
        let object = self.find_one(&self.objects[at])?;
        // If this fails, the object may exist or not.
        let label = self.objects.swap_remove(at);
        say(&Said::Destroying(label.clone()));
        self.call("C_DestroyObject", |session| session.destroy_object(object))?;
        say(&Said::Destroyed(label.clone()));
        self.destroyed.push(label);
        Ok(())
    }

    /// Looks for an object that exists, and for one that does not.
    fn look(&mut self) -> Result<(), Failed> {
        if let Some(at) = self.any(self.objects.len()) {
            self.find_one(&self.objects[at])?;
        }
        let Some(at) = self.any(self.destroyed.len()) else { return Ok(()) };
        let label = &self.destroyed[at];
        let found = self.find(&Attribute::bytes(CKA_LABEL, label.as_str()))?;
        check(found.is_empty(), format!("the destroyed object {label} is back"))
    }

    /// Returns a position in a list of this length.
    fn any(&mut self, len: usize) -> Option<usize> {
        (len > 0).then(|| self.random.below(len as u64) as usize)
    }

    fn use_session_object(&mut self) -> Result<(), Failed> {
        if self.of_session.len() < 3 {
            let label = self.create(false)?;
            self.of_session.push(label);
        }
        let Some(at) = self.any(self.of_session.len()) else { return Ok(()) };
        let object = self.find_one(&self.of_session[at])?;
        if self.random.below(2) == 0 {
            self.of_session.swap_remove(at);
            self.call("C_DestroyObject", |session| session.destroy_object(object))?;
        }
        Ok(())
    }

    fn find(&self, attribute: &Attribute) -> Result<Vec<ObjectHandle>, Failed> {
        let template = std::slice::from_ref(attribute);
        self.call("C_FindObjectsInit", |session| session.find_init(template))?;
        let found = self.call("C_FindObjects", |session| session.find_next(8))?;
        self.call("C_FindObjectsFinal", Session::find_final)?;
        Ok(found)
    }

    fn find_single(&self, attribute: &Attribute, name: &str) -> Result<ObjectHandle, Failed> {
        let found = self.find(attribute)?;
        check(found.len() == 1, format!("{} objects: {name}", found.len()))?;
        Ok(found[0])
    }

    /// Returns the object with this label, which must exist once and have its value.
    fn find_one(&self, label: &str) -> Result<ObjectHandle, Failed> {
        let object = self.find_single(&Attribute::bytes(CKA_LABEL, label), label)?;
        let read = |session: &Session| session.attribute_within(object, CKA_VALUE, 64);
        let (found, right) = (self.call("C_GetAttributeValue", read)?, value(label));
        check(found == right, format!("{label} ({object:?}) has the value {found:02x?}, not {right:02x?}"))?;
        Ok(object)
    }
}

/// Returns the value of the object with this label.
pub fn value(label: &str) -> Vec<u8> {
    digest(&SHA256, label.as_bytes()).as_ref().to_vec()
}
