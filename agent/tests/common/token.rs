//! A token with a key pair, through the client module.

use super::*;

pub const CURVE: [u8; 10] = [0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];

pub fn load_library() -> Module {
    Module::load(Known::JetonAgent.library().expect("the client module")).expect("a module")
}

/// Loads the client module, and connects to an agent.
pub fn load(parameters: &str) -> Module {
    let module = load_library();
    module.initialize(Some(parameters)).expect("an agent");
    module
}

/// Opens a session as the user.
pub fn log_in(module: &Module) -> Session {
    let slot = module.slots(true).expect("slots")[0];
    let session = module.open_session(slot, Access::ReadWrite).expect("a session");
    session.login(User::User, Some(PIN)).expect("a login");
    session
}

/// Makes a token with a P-256 key pair. Returns the public point.
pub fn make(parameters: &str) -> Vec<u8> {
    let module = load(parameters);
    initialise(&module, module.slots(true).expect("slots")[0], "t", SO_PIN, PIN).expect("a token");
    let session = log_in(&module);
    let token = Attribute::flag(CKA_TOKEN, true);
    let public = [Attribute::bytes(CKA_EC_PARAMS, CURVE), token.clone()];
    let pair = session.generate_key_pair(&Mechanism::new(CKM_EC_KEY_PAIR_GEN), &public, &[token]);
    let point = session.bytes(pair.expect("a key pair").0, CKA_EC_POINT);
    session.close().expect("a session");
    module.finalize().expect("the module");
    // Without the header of the OCTET STRING.
    point[point.len() - 65..].to_vec()
}
