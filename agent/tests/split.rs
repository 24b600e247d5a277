//! Split keys: three agents, and a client module to which they are one slot. Without the feature
//! `split` there is nothing to test.
#![cfg(feature = "split")]

mod common;

use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use common::*;
use jeton_client::SlotId;

/// The object identifier of Ed25519 in DER.
const ED25519_OID: [u8; 5] = [6, 3, 0x2b, 0x65, 0x70];
/// How long a call waits for agents: the default of `timeout-seconds`.
const TIMEOUT: Duration = Duration::from_secs(10);

struct Three {
    agents: Vec<Option<Agent>>,
    directories: Vec<Directory>,
    module: Module,
    parameters: String,
    _lock: std::sync::MutexGuard<'static, ()>,
}

impl Three {
    /// Starts three agents with a token each. The rules name no identities.
    fn new() -> Self {
        let lock = module();
        let directories: Vec<_> = (0..3).map(|_| Directory::new()).collect();
        let agents = directories.iter().map(|directory| {
            let agent = Agent::start(directory);
            token::make(&parameters(directory));
            drop(agent);
            write_rules(directory, &rules(&[]));
            Some(Agent::start(directory))
        });
        let agents = agents.collect::<Vec<_>>();
        let addresses: Vec<_> =
            directories.iter().map(|one| format!("'unix:{}'", socket(one).display())).collect();
        let parameters = format!("split = {{ threshold = 2, agents = [{}] }}", addresses.join(", "));
        let module = Module::load(Known::JetonAgent.library().expect("the client module")).expect("a module");
        Self { agents, directories, module, parameters, _lock: lock }
    }

    fn start(&self) -> (SlotId, Session) {
        self.module.initialize(Some(&self.parameters)).expect("the agents");
        let slots = self.module.slots(true).expect("slots");
        assert_eq!(slots.len(), 1);
        (slots[0], token::log_in(&self.module))
    }

    /// Lets each agent name the identities of all.
    fn introduce(&mut self) {
        let identities: Vec<_> = self.directories.iter().map(|one| self.identity(one)).collect();
        for (agent, directory) in self.agents.iter_mut().zip(&self.directories) {
            write_rules(directory, &rules(&identities));
            agent.as_mut().expect("an agent").replace();
        }
    }

    /// Reads the identity of an agent, which its first generation made.
    fn identity(&self, directory: &Directory) -> String {
        self.module.initialize(Some(&parameters(directory))).expect("an agent");
        let session = token::log_in(&self.module);
        let found = session.find(&[Attribute::bytes(CKA_LABEL, "split identity")]).expect("a search");
        let info = session.bytes(found[0], CKA_PUBLIC_KEY_INFO);
        session.close().expect("a session");
        self.module.finalize().expect("the module");
        info[info.len() - 32..].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

fn rules(identities: &[String]) -> String {
    let uid = rustix::process::getuid().as_raw();
    format!("[[client]]\nuid = {uid}\nsplit-with = {identities:?}\n")
}

fn generate(session: &Session) -> Result<(ObjectHandle, ObjectHandle), Failure> {
    let stored = Attribute::flag(CKA_TOKEN, true);
    let label = Attribute::bytes(CKA_LABEL, "root");
    let public = [Attribute::bytes(CKA_EC_PARAMS, ED25519_OID), stored.clone(), label.clone()];
    session.generate_key_pair(&Mechanism::new(CKM_EC_EDWARDS_KEY_PAIR_GEN), &public, &[stored, label])
}

fn sign(session: &Session, key: ObjectHandle, message: &[u8]) -> Result<Vec<u8>, Failure> {
    let mut out = [0; 64];
    session.sign_init(&Mechanism::new(CKM_EDDSA), key)?;
    let len = session.sign(message, &mut out)?;
    Ok(out[..len].to_vec())
}

fn verify(session: &Session, public: ObjectHandle, message: &[u8], signature: &[u8]) {
    let point = session.bytes(public, CKA_EC_POINT);
    let key = UnparsedPublicKey::new(&ED25519, &point[point.len() - 32..]);
    key.verify(message, signature).expect("a right signature");
}

#[test]
fn two_of_three_agents_sign_and_one_does_not() {
    let mut three = Three::new();
    let (_, session) = three.start();
    // No rule names the identities yet.
    let refused = generate(&session).expect_err("agents that do not know each other");
    assert_eq!(refused.code, CKR_ACTION_PROHIBITED);
    session.close().expect("a session");
    three.module.finalize().expect("the module");
    three.introduce();

    let (slot, session) = three.start();
    let (public, private) = generate(&session).expect("a key");
    assert_eq!(session.number(private, CKA_KEY_TYPE), Some(CKK_EC_EDWARDS));
    for (flag, is) in [(CKA_SENSITIVE, true), (CKA_LOCAL, true), (CKA_EXTRACTABLE, false)] {
        assert_eq!(session.flag(private, flag), is, "{flag:#x}");
    }
    let wanted = [Attribute::number(CKA_KEY_TYPE, CKK_EC_EDWARDS), Attribute::bytes(CKA_LABEL, "root")];
    let found = session.find(&wanted).expect("a search");
    assert!(found.len() == 2 && found.contains(&public) && found.contains(&private), "{found:?}");
    for number in 0..20_u8 {
        let message = vec![number; usize::from(number) * 100];
        verify(&session, public, &message, &sign(&session, private, &message).expect("a signature"));
    }
    // In parts, with a question for the length.
    session.sign_init(&Mechanism::new(CKM_EDDSA), private).expect("a signature");
    session.sign_update(b"one ").and_then(|()| session.sign_update(b"message")).expect("parts");
    let mut out = [0; 64];
    assert_eq!(session.sign_final(&mut out).expect("a signature"), 64);
    verify(&session, public, b"one message", &out);

    // One agent ends, and another one.
    for lost in 0..3 {
        three.agents[lost].as_mut().expect("an agent").kill();
        for number in 0..5 {
            let message = [number, lost as u8];
            verify(&session, public, &message, &sign(&session, private, &message).expect("two of three"));
        }
        three.agents[lost].as_mut().expect("an agent").replace();
    }
    three.agents[0].as_mut().expect("an agent").kill();
    three.agents[2].as_mut().expect("an agent").kill();
    let start = Instant::now();
    let failure = sign(&session, private, b"alone").expect_err("one of three");
    assert_eq!(failure.code, CKR_DEVICE_ERROR);
    assert!(start.elapsed() < TIMEOUT, "{:?}", start.elapsed());
    three.agents[2].as_mut().expect("an agent").replace();
    until("two of three do not sign again", || sign(&session, private, b"again").is_ok());
    assert!(three.module.token_info(slot).is_ok());
}
