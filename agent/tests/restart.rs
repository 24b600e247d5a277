//! The agent is killed again and again while an application uses it. The application goes on, and
//! everything that was acknowledged is there.

mod common;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use agent_client as _;
use common::{Agent, parameters};
use cryptoki_sys::*;
use jeton_client::{Access, Attribute, Failure, Mechanism, Module, ObjectHandle, Session, SlotId, User};
use jeton_peers::{Known, PIN, SO_PIN, initialise};

const THREADS: usize = 4;

/// A thread of the application.
struct Worker<'a> {
    module: &'a Module,
    slot: SlotId,
    session: Session,
    key: ObjectHandle,
}

impl Worker<'_> {
    /// Goes on after a failure that an agent's end may cause once.
    fn recover(&mut self, failure: &Failure) {
        match failure.code {
            CKR_SESSION_HANDLE_INVALID | CKR_DEVICE_ERROR | CKR_OPERATION_ACTIVE => {
                self.session = self.module.open_session(self.slot, Access::ReadWrite).expect("a session");
            }
            _ => panic!("{failure}"),
        }
    }

    fn sign(&mut self) -> Result<(), Failure> {
        self.session.sign_init(&Mechanism::new(CKM_ECDSA_SHA256), self.key)?;
        assert_eq!(self.session.sign(b"data", &mut [0; 64])?, 64);
        Ok(())
    }

    fn store(&mut self, label: &str) -> Result<(), Failure> {
        let template = [
            Attribute::number(CKA_CLASS, CKO_DATA),
            Attribute::flag(CKA_TOKEN, true),
            Attribute::bytes(CKA_LABEL, label),
        ];
        self.session.create_object(&template).map(drop)
    }
}

fn rounds(rounds: usize) {
    let directory = tempfile::tempdir().expect("a directory");
    let mut agent = Agent::start(directory.path());
    let library = Known::JetonAgent.library().expect("the client module");
    let module = Module::load(library).expect("the client module");
    module.initialize(Some(&parameters(directory.path()))).expect("an agent");
    let slot = module.slots(true).expect("slots")[0];
    let slot = initialise(&module, slot, "t", SO_PIN, PIN).expect("a token");
    let session = module.open_session(slot, Access::ReadWrite).expect("a session");
    session.login(User::User, Some(PIN)).expect("a login");
    let curve = [0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
    let public = [Attribute::bytes(CKA_EC_PARAMS, curve), Attribute::flag(CKA_TOKEN, true)];
    let private = [Attribute::flag(CKA_TOKEN, true)];
    let generate = Mechanism::new(CKM_EC_KEY_PAIR_GEN);
    let (_, key) = session.generate_key_pair(&generate, &public, &private).expect("a key");

    let stop = AtomicBool::new(false);
    let acknowledged = Mutex::new(Vec::new());
    let (signed, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (module, stop, acknowledged, signed, failed) =
                (&module, &stop, &acknowledged, &signed, &failed);
            scope.spawn(move || {
                let session = module.open_session(slot, Access::ReadWrite).expect("a session");
                let mut worker = Worker { module, slot, session, key };
                let mut count = 0;
                while !stop.load(Ordering::Relaxed) {
                    count += 1;
                    let label = format!("{thread}-{count}");
                    let outcome = worker.sign().and_then(|()| {
                        signed.fetch_add(1, Ordering::Relaxed);
                        if count % 8 == 0 {
                            worker.store(&label)?;
                            acknowledged.lock().expect("labels").push(label.clone());
                        }
                        Ok(())
                    });
                    if let Err(failure) = outcome {
                        failed.fetch_add(1, Ordering::Relaxed);
                        worker.recover(&failure);
                    }
                }
            });
        }
        for round in 0..rounds {
            let before = signed.load(Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(20 + (round as u64 * 37) % 60));
            let start = Instant::now();
            while signed.load(Ordering::Relaxed) == before {
                assert!(start.elapsed() < Duration::from_secs(20), "no signature in round {round}");
                std::thread::sleep(Duration::from_millis(1));
            }
            agent.replace();
        }
        stop.store(true, Ordering::Relaxed);
    });

    let acknowledged = acknowledged.into_inner().expect("labels");
    println!("{rounds} kills: {signed:?} signatures, {failed:?} failures, {} objects", acknowledged.len());
    // The session that did nothing all the time is still logged in.
    for label in &acknowledged {
        let found = session.find(&[Attribute::bytes(CKA_LABEL, label.as_str())]).expect("a search");
        assert_eq!(found.len(), 1, "{label}");
    }
    // Each thread has at most one call in flight when the agent ends.
    assert!(failed.into_inner() <= THREADS * rounds && !acknowledged.is_empty());
    module.finalize().expect("the module");
}

#[test]
fn an_application_goes_on_after_the_agent_was_killed() {
    rounds(10);
}

#[test]
#[ignore = "in .ci/full"]
fn an_application_goes_on_after_a_thousand_kills() {
    rounds(1000);
}
