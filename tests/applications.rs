//! Several applications in one process share the tokens. Each has its own sessions, logins and
//! session objects (PKCS#11 3.2, "Applications and processes").

use jeton::error::{Error, Result};
use jeton::id::{
    AttributeType as A, KeyType, MechanismType, ObjectClass, ObjectHandle, SessionHandle, SlotId,
};
use jeton::mechanism::{self, Mechanism, Params};
use jeton::module::{Access, Module, Output, User};
use jeton::object::template::{Given, Raw, Template};
use tempfile::TempDir;

const SO_PIN: &[u8] = b"the pin of the so";
const PIN: &[u8] = b"the pin of the user";
const VALUE: [u8; 32] = [7; 32];
const AES_CMAC: MechanismType = MechanismType(0x108a);

/// An application with a read/write session.
struct Application {
    module: Module,
    session: SessionHandle,
}

impl Application {
    fn new(module: Module, slot: SlotId) -> Self {
        let session = module.open_session(slot, Access::ReadWrite).expect("a session");
        Self { module, session }
    }

    fn log_in(&self, user: User, pin: &[u8]) -> Result<()> {
        self.module.login(self.session, user, pin)
    }

    /// Creates an AES key with this label. `flags` are the values of `CKA_TOKEN` and `CKA_PRIVATE`.
    fn key(&self, label: &str, flags: [bool; 2]) -> Result<ObjectHandle> {
        let numbers = [ObjectClass::SECRET_KEY.0, KeyType::AES.0].map(|number| number.to_ne_bytes());
        let [token, private] = flags.map(u8::from);
        let given = |id, value| Given { id, value: Raw::Bytes(value) };
        self.module.create_object(
            self.session,
            &Template(vec![
                given(A::CLASS, &numbers[0]),
                given(A::KEY_TYPE, &numbers[1]),
                given(A::VALUE, &VALUE),
                given(A::LABEL, label.as_bytes()),
                given(A::TOKEN, &[token]),
                given(A::PRIVATE, &[private]),
                given(A::SIGN, &[1]),
                given(A::SENSITIVE, &[0]),
                given(A::EXTRACTABLE, &[1]),
            ]),
        )
    }

    fn sign(&self, key: ObjectHandle) -> Result<usize> {
        let mechanism = Mechanism { info: mechanism::find(AES_CMAC).expect("AES"), params: Params::None };
        self.module.with_session(self.session, |session| {
            session.sign_init(&mechanism, key)?;
            session.operations.sign.sign(b"data", Output::Buffer(&mut [0; 16]))
        })
    }

    fn find(&self, label: &str) -> Vec<ObjectHandle> {
        let given = Given { id: A::LABEL, value: Raw::Bytes(label.as_bytes()) };
        self.module.find_init(self.session, &Template(vec![given])).expect("a search");
        let mut found = [ObjectHandle(0); 8];
        let count = self.module.find(self.session, &mut found).expect("a search");
        self.module.find_final(self.session).expect("a search");
        found[..count].to_vec()
    }

    fn attribute(&self, key: ObjectHandle, id: A) -> Result<()> {
        self.module.object(self.session, key)?.attribute(id).map(drop)
    }

    fn relabel(&self, key: ObjectHandle, label: &str) -> Result<()> {
        let given = Given { id: A::LABEL, value: Raw::Bytes(label.as_bytes()) };
        self.module.set_attributes(self.session, key, &Template(vec![given]))
    }

    /// Returns the state of the session (`CKS_*`).
    fn state(&self) -> u64 {
        self.module.session(self.session).expect("a session").state
    }
}

/// Returns two applications with a session each on the same token, and its directory.
fn applications() -> (TempDir, SlotId, Application, Application) {
    let directory = tempfile::tempdir().expect("a directory");
    let module = Module::new();
    let parameters =
        format!("token-dir = '{}', pin = {{ memory-kib = 8, passes = 1 }}", directory.path().display());
    module.initialize(Some(&parameters)).expect("a module");
    let slot = module.slots().expect("slots")[0];
    module.init_token(slot, SO_PIN, &[b' '; 32]).expect("a token");
    let so = Application::new(module, slot);
    so.log_in(User::SecurityOfficer, SO_PIN).expect("the SO");
    so.module.init_pin(so.session, PIN).expect("a PIN");
    so.module.logout(so.session).expect("the SO");
    let other = Application::new(so.module.join().expect("another application"), slot);
    (directory, slot, so, other)
}

const PUBLIC: u64 = 2;
const USER: u64 = 3;
const SO: u64 = 4;

#[test]
fn a_login_belongs_to_one_application() {
    let (_directory, slot, first, second) = applications();
    first.log_in(User::User, PIN).expect("a login");
    assert_eq!((first.state(), second.state()), (USER, PUBLIC));
    assert_eq!(second.module.logout(second.session), Err(Error::UserNotLoggedIn));

    // The roles of two applications do not exclude each other.
    second.log_in(User::SecurityOfficer, SO_PIN).expect("a login");
    assert_eq!((first.state(), second.state()), (USER, SO));
    let reading = first.module.open_session(slot, Access::ReadOnly);
    assert!(reading.is_ok(), "no SO of this application forbids read-only sessions");

    // The last session of an application ends its login only.
    second.module.close_session(second.session).expect("a session");
    assert_eq!(first.state(), USER);
    let info = |application: &Application| application.module.token(slot).expect("a token").sessions;
    assert_eq!((info(&first), info(&second)), (2, 0));
    assert!(first.key("after", [true, true]).is_ok());
}

#[test]
fn an_application_without_a_login_uses_no_key_of_another() {
    let (_directory, _, first, second) = applications();
    first.log_in(User::User, PIN).expect("a login");
    let private = first.key("private", [true, true]).expect("a key");
    let public = first.key("public", [true, false]).expect("a key");
    first.sign(private).expect("a MAC");
    first.sign(public).expect("a MAC");

    assert_eq!(second.find("private"), []);
    assert_eq!(second.sign(private), Err(Error::KeyHandleInvalid));
    assert_eq!(second.attribute(private, A::LABEL), Err(Error::ObjectHandleInvalid));
    // The key is unlocked in memory, because the first application is logged in.
    assert_eq!(second.find("public"), [public]);
    assert_eq!(second.attribute(public, A::LABEL), Ok(()));
    assert_eq!(second.attribute(public, A::VALUE), Err(Error::AttributeSensitive));
    assert_eq!(second.sign(public), Err(Error::UserNotLoggedIn));
    assert_eq!(second.key("new", [true, false]), Err(Error::UserNotLoggedIn));
    assert_eq!(second.relabel(public, "changed"), Err(Error::UserNotLoggedIn));
    assert_eq!(second.module.destroy_object(second.session, public), Err(Error::UserNotLoggedIn));
    assert_eq!(first.find("public"), [public]);
}

#[test]
fn session_objects_belong_to_one_application() {
    let (_directory, _, first, second) = applications();
    for application in [&first, &second] {
        application.log_in(User::User, PIN).expect("a login");
    }
    let keys = [&first, &second].map(|application| application.key("own", [false, true]).expect("a key"));
    assert_ne!(keys[0], keys[1], "a handle names one object in all applications");
    assert_eq!(first.find("own"), [keys[0]]);
    assert_eq!(second.find("own"), [keys[1]]);
    assert_eq!(first.sign(keys[1]), Err(Error::KeyHandleInvalid));
    assert_eq!(first.module.destroy_object(first.session, keys[1]), Err(Error::ObjectHandleInvalid));

    // A logout destroys the private session objects of its application.
    first.module.logout(first.session).expect("a logout");
    assert_eq!(second.find("own"), [keys[1]]);
    assert_eq!(second.sign(keys[1]), Ok(16));
    first.log_in(User::User, PIN).expect("a login");
    assert_eq!(first.find("own"), []);
}

#[test]
fn token_objects_are_shared() {
    let (_directory, _, first, second) = applications();
    for application in [&first, &second] {
        application.log_in(User::User, PIN).expect("a login");
    }
    let key = first.key("shared", [true, true]).expect("a key");
    assert_eq!(second.sign(key), Ok(16));
    second.relabel(key, "renamed").expect("a change");
    assert_eq!(first.find("renamed"), [key]);

    // The logout of one application leaves the key to the other.
    first.module.logout(first.session).expect("a logout");
    assert_eq!(first.sign(key), Err(Error::KeyHandleInvalid));
    assert_eq!(second.sign(key), Ok(16));

    // The handle stays invalid for the application that logged out.
    first.log_in(User::User, PIN).expect("a login");
    assert_eq!(first.sign(key), Err(Error::KeyHandleInvalid));
    let again = first.find("renamed")[0];
    first.module.destroy_object(first.session, again).expect("a key");
    assert_eq!(second.sign(key), Err(Error::KeyHandleInvalid));
}

#[test]
fn a_login_of_the_so_leaves_the_private_objects_to_another_application() {
    let (_directory, _, first, second) = applications();
    first.log_in(User::User, PIN).expect("a login");
    let key = first.key("private", [true, true]).expect("a key");
    second.log_in(User::SecurityOfficer, SO_PIN).expect("a login");
    assert_eq!(second.find("private"), []);
    assert_eq!(second.sign(key), Err(Error::KeyHandleInvalid));
    assert_eq!(first.find("private"), [key]);
    assert_eq!(first.sign(key), Ok(16));

    // With the last login of the user, the private objects leave the memory.
    first.module.logout(first.session).expect("a logout");
    assert_eq!(second.find("private"), []);
    first.log_in(User::User, PIN).expect("a login");
    assert_eq!(first.find("private").len(), 1);
}

#[test]
fn a_token_is_initialised_again_only_without_sessions_of_any_application() {
    let (_directory, slot, first, second) = applications();
    first.module.close_session(first.session).expect("a session");
    let again = || first.module.init_token(slot, SO_PIN, &[b' '; 32]);
    assert_eq!(again(), Err(Error::SessionExists));
    second.module.finalize().expect("the end of an application");
    assert_eq!(again(), Ok(()));
}

#[test]
fn an_application_that_ends_leaves_the_others() {
    let (_directory, slot, first, second) = applications();
    second.log_in(User::User, PIN).expect("a login");
    let key = second.key("private", [true, true]).expect("a key");
    first.module.finalize().expect("the end of an application");
    assert_eq!(first.module.open_session(slot, Access::ReadOnly), Err(Error::NotInitialized));
    assert_eq!(second.sign(key), Ok(16));
    assert!(matches!(first.module.join(), Err(Error::NotInitialized)));
}
