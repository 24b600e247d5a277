//! The token of the runs: keys of many types, with the user logged in. It is restored after a run
//! that changed it.

use std::fs;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;

use cryptoki_sys::*;
use jeton::mechanism;
use tempfile::TempDir;

use super::secrets;
use super::service::Service;

pub(crate) const SO_PIN: &[u8] = b"so pin";
pub(crate) const PIN: &[u8] = b"user pin";
const LABEL: [u8; 32] = *b"fuzzed                          ";

/// PINs have the cheapest key derivation, and wrong attempts do not lock them. Everything is
/// logged, so that the log code runs.
const CONFIGURATION: &str = "
    log = { level = 'trace', file = '/dev/null' }
    mechanisms = { legacy = true }
    pin = { memory-kib = 8, passes = 1, retries = 4000000000, min-length = 1, max-length = 64 }
";

pub(crate) struct Token {
    pub(crate) list: &'static CK_FUNCTION_LIST_3_2,
    pub(crate) slot: CK_SLOT_ID,
    /// A session that outlives a run, with the user logged in.
    pub(crate) session: CK_SESSION_HANDLE,
    /// The keys.
    pub(crate) objects: Vec<CK_OBJECT_HANDLE>,
    /// Public keys of elliptic curves, as peers.
    pub(crate) points: Vec<Vec<u8>>,
    pub(crate) mechanisms: Vec<CK_MECHANISM_TYPE>,
    /// Whether a run changed the state that the next run expects.
    pub(crate) changed: bool,
    /// A key with long values in a template in a template.
    pub(crate) nested: CK_OBJECT_HANDLE,
    service: Service,
    directory: TempDir,
    /// The files in their first state.
    files: Vec<(PathBuf, Vec<u8>)>,
}

/// Calls a function and panics if it fails.
macro_rules! ok {
    ($token:ident, $name:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: the arguments follow PKCS#11.
        let rv = unsafe { $token.list.$name.expect("an entry")($($argument),*) };
        assert_eq!(rv, CKR_OK, "{}", stringify!($name));
    }};
}

impl Token {
    /// Creates a token with all keys of [`keys`], or only with those that are fast to read.
    pub(crate) fn new(all: bool) -> Self {
        let mut token = Self::empty(Service::Linked(0));
        token.initialize();
        token.make(all);
        token.finalize();
        token.files = files(&token.tokens());
        assert_eq!(token.files.len(), 1, "a token");
        token.start();
        token
    }

    /// Opens a copy of a token's file with the module of this process, or through an agent.
    pub(crate) fn copy_of(file: &Path, service: Service) -> Self {
        let mut token = Self::empty(service);
        let name = PathBuf::from(file.file_name().expect("a name"));
        token.files = vec![(name, fs::read(file).expect("a file"))];
        token.restore();
        token
    }

    /// Returns the path of its file, which stays.
    pub(crate) fn kept(mut self) -> PathBuf {
        self.write_files();
        self.directory.disable_cleanup(true);
        self.paths().remove(0)
    }

    fn empty(service: Service) -> Self {
        let memory = Path::new("/dev/shm");
        let directory = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
        let directory = directory.expect("a directory");
        configure(directory.path());
        Self {
            list: service.functions(),
            slot: 0,
            session: 0,
            objects: Vec::new(),
            points: Vec::new(),
            mechanisms: mechanism::all().map(|row| row.id.0).collect(),
            changed: false,
            nested: 0,
            service,
            directory,
            files: Vec::new(),
        }
    }

    pub(crate) fn restore(&mut self) {
        self.write_files();
        self.start();
        self.changed = false;
    }

    /// Restores the first files, while the module is stopped.
    pub(crate) fn write_files(&mut self) {
        self.finalize();
        self.service.stop();
        for path in self.paths() {
            fs::remove_file(path).expect("the file can be removed");
        }
        for (name, bytes) in &self.files {
            let path = self.tokens().join(name);
            fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
            fs::write(path, bytes).expect("a file");
        }
    }

    /// Returns the paths of the token's files.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        files(&self.tokens()).into_iter().map(|(name, _)| self.tokens().join(name)).collect()
    }

    pub(crate) fn initialize(&self) {
        ok!(self, C_Initialize(null_mut()));
    }

    /// Finalises the module. Ignores the error if a run already finalised it.
    pub(crate) fn finalize(&self) {
        // SAFETY: no argument.
        unsafe { self.list.C_Finalize.expect("an entry")(null_mut()) };
    }

    /// Opens a session, if the slot has a token.
    pub(crate) fn session_in(&self, slot: CK_SLOT_ID) -> Option<CK_SESSION_HANDLE> {
        let mut session = 0;
        let flags = CKF_SERIAL_SESSION | CKF_RW_SESSION;
        let open = self.list.C_OpenSession.expect("an entry");
        // SAFETY: a slot, flags, and memory for the handle.
        let rv = unsafe { open(slot, flags, null_mut(), None, &raw mut session) };
        (rv == CKR_OK).then_some(session)
    }

    pub(crate) fn log_in(&self, session: CK_SESSION_HANDLE) -> CK_RV {
        // SAFETY: a PIN of that length.
        unsafe {
            self.list.C_Login.expect("an entry")(session, CKU_USER, pointer(PIN), PIN.len() as CK_ULONG)
        }
    }

    /// Returns the first 64 objects that a session finds, or no objects if the search fails.
    pub(crate) fn found(&self, session: CK_SESSION_HANDLE) -> Vec<CK_OBJECT_HANDLE> {
        let (mut found, mut count) = ([0; 64], 0);
        // SAFETY: no template, and the list has room for `count` handles.
        unsafe {
            self.list.C_FindObjectsInit.expect("an entry")(session, null_mut(), 0);
            self.list.C_FindObjects.expect("an entry")(session, found.as_mut_ptr(), 64, &raw mut count);
            self.list.C_FindObjectsFinal.expect("an entry")(session);
        }
        found[..count as usize].to_vec()
    }

    /// Creates a data object in the token.
    pub(crate) fn make_data(&self, session: CK_SESSION_HANDLE) -> CK_RV {
        let class = CKO_DATA.to_ne_bytes();
        let mut template = [keys::attribute(CKA_CLASS, &class), keys::flag(CKA_TOKEN, &CK_TRUE)];
        let mut handle = 0;
        let create = self.list.C_CreateObject.expect("an entry");
        // SAFETY: two attributes, and memory for the handle.
        unsafe { create(session, template.as_mut_ptr(), 2, &raw mut handle) }
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn tokens(&self) -> PathBuf {
        self.directory().join("tokens")
    }

    fn make(&mut self, all: bool) {
        let mut label = LABEL;
        ok!(self, C_InitToken(0, pointer(SO_PIN), SO_PIN.len() as CK_ULONG, label.as_mut_ptr()));
        self.open();
        ok!(self, C_Login(self.session, CKU_SO, pointer(SO_PIN), SO_PIN.len() as CK_ULONG));
        ok!(self, C_InitPIN(self.session, pointer(PIN), PIN.len() as CK_ULONG));
        ok!(self, C_Logout(self.session));
        self.login();
        keys::make(self);
        secrets::make(self.list, self.session);
        self.nested = keys::make_nested(self);
        if all {
            keys::make_slow(self);
        }
    }

    fn start(&mut self) {
        self.service.start(self.directory.path());
        self.initialize();
        self.shift();
        self.open();
        self.login();
        let mut objects = self.found(self.session);
        // The order of a search is that of another process too.
        objects.sort_by_cached_key(|object| self.attribute(*object, CKA_UNIQUE_ID));
        self.objects = objects;
        self.points = self.objects.iter().filter_map(|object| self.point(*object)).collect();
        assert!(!self.points.is_empty(), "public keys");
    }

    /// Uses some handles up, if the module shall have others than one with the same calls.
    fn shift(&self) {
        for _ in 0..self.service.shift() {
            let session = self.session_in(self.slot).expect("a session");
            let class = CKO_DATA.to_ne_bytes();
            let mut template = [keys::attribute(CKA_CLASS, &class), keys::flag(CKA_PRIVATE, &CK_FALSE)];
            let mut handle = 0;
            ok!(self, C_CreateObject(session, template.as_mut_ptr(), 2, &raw mut handle));
            ok!(self, C_CloseSession(session));
        }
    }

    fn open(&mut self) {
        self.session = self.session_in(self.slot).expect("a session");
    }

    fn login(&self) {
        assert_eq!(self.log_in(self.session), CKR_OK, "the user's login");
    }

    /// Returns the point of a public key, without the octet string around it.
    fn point(&self, object: CK_OBJECT_HANDLE) -> Option<Vec<u8>> {
        self.attribute(object, CKA_EC_POINT).map(|value| value.get(2..).unwrap_or_default().to_vec())
    }

    /// Returns a value of at most 256 bytes, which the object has.
    fn attribute(&self, object: CK_OBJECT_HANDLE, type_: CK_ATTRIBUTE_TYPE) -> Option<Vec<u8>> {
        let mut value = [0; 256];
        let mut asked = CK_ATTRIBUTE { type_, pValue: value.as_mut_ptr().cast(), ulValueLen: 256 };
        // SAFETY: an attribute with a buffer of its length.
        let rv = unsafe {
            self.list.C_GetAttributeValue.expect("an entry")(self.session, object, &raw mut asked, 1)
        };
        (rv == CKR_OK).then(|| value[..asked.ulValueLen as usize].to_vec())
    }
}

fn configure(directory: &Path) {
    let file = directory.join("jeton.toml");
    fs::create_dir(directory.join("tokens")).expect("a directory");
    let tokens = directory.join("tokens");
    fs::write(&file, format!("token-dir = '{}'\n{CONFIGURATION}", tokens.display())).expect("a file");
    // SAFETY: before the first call; no other thread reads the environment.
    unsafe {
        std::env::set_var("JETON_CONF", &file);
        std::env::remove_var("JETON_DIR");
    }
}

/// Returns the files of a token directory and of the tokens' own directories, without lock files.
fn files(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let all = paths_in(directory)
        .into_iter()
        .flat_map(|path| if path.is_dir() { paths_in(&path) } else { vec![path] });
    let kept = all.filter(|path| !path.to_string_lossy().ends_with("-lock"));
    let name = |path: &Path| path.strip_prefix(directory).expect("a path in it").to_owned();
    kept.map(|path| (name(&path), fs::read(path).expect("a file"))).collect()
}

/// Returns the paths in a directory.
pub(crate) fn paths_in(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("a directory");
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

fn pointer(bytes: &[u8]) -> *mut u8 {
    bytes.as_ptr().cast_mut()
}

mod keys {
    use std::ptr::null_mut;

    use cryptoki_sys::*;

    use super::{Token, pointer};

    const P256: &[u8] = &[0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
    const ED25519: &[u8] = &[0x06, 0x03, 0x2b, 0x65, 0x70];
    const X25519: &[u8] = &[0x06, 0x03, 0x2b, 0x65, 0x6e];
    /// RFC 2409, 6.2: the second Oakley group.
    const PRIME: &str = "ffffffffffffffffc90fdaa22168c234c4c6628b80dc1cd129024e088a67cc74020bbea63b139b22514a08798e3404ddef9519b3cd3a431b302b0a6df25f14374fe1356d6d51c245e485b576625e7ec6f44c42e9a637ed6b0bff5cb6f406b7edee386bfb5a899fa5ae9f24117c4b1fe649286651ece65381ffffffffffffffff";
    const SIGNING: [&[CK_ATTRIBUTE_TYPE]; 2] = [&[CKA_VERIFY], &[CKA_SIGN]];
    const AGREEING: [&[CK_ATTRIBUTE_TYPE]; 2] = [&[], &[CKA_DERIVE]];

    /// Makes the keys that are fast to generate and to read.
    pub(super) fn make(token: &Token) {
        let number = |number: CK_ULONG| number.to_ne_bytes().to_vec();
        let curve: [&[_]; 2] = [&[CKA_VERIFY], &[CKA_SIGN, CKA_DERIVE]];
        pair(token, CKM_EC_KEY_PAIR_GEN, &[(CKA_EC_PARAMS, P256.to_vec())], curve);
        pair(token, CKM_EC_EDWARDS_KEY_PAIR_GEN, &[(CKA_EC_PARAMS, ED25519.to_vec())], SIGNING);
        pair(token, CKM_EC_MONTGOMERY_KEY_PAIR_GEN, &[(CKA_EC_PARAMS, X25519.to_vec())], AGREEING);
        let set = [(CKA_PARAMETER_SET, number(CKP_ML_DSA_44))];
        pair(token, CKM_ML_DSA_KEY_PAIR_GEN, &set, SIGNING);

        let crypt = [CKA_ENCRYPT, CKA_DECRYPT, CKA_WRAP, CKA_UNWRAP, CKA_DERIVE, CKA_SIGN, CKA_VERIFY];
        let secret = [CKA_SIGN, CKA_VERIFY, CKA_DERIVE];
        for (mechanism, len) in [(CKM_AES_KEY_GEN, 16), (CKM_AES_KEY_GEN, 32), (CKM_AES_XTS_KEY_GEN, 64)] {
            generate(token, mechanism, &[(CKA_VALUE_LEN, number(len))], &crypt);
        }
        generate(token, CKM_CHACHA20_KEY_GEN, &[(CKA_VALUE_LEN, number(32))], &crypt);
        for mechanism in [CKM_GENERIC_SECRET_KEY_GEN, CKM_HKDF_KEY_GEN] {
            generate(token, mechanism, &[(CKA_VALUE_LEN, number(48))], &secret);
        }
        let otp = [(CKA_VALUE_LEN, number(20)), (CKA_OTP_LENGTH, number(6))];
        generate(token, CKM_HOTP_KEY_GEN, &otp, &[CKA_SIGN, CKA_VERIFY]);
    }

    /// Makes a key with a template in each array attribute, and a template in it. Their values are
    /// longer than any array of attributes for which the agent makes room.
    pub(super) fn make_nested(token: &Token) -> CK_OBJECT_HANDLE {
        let long = vec![b'A'; 30_000];
        let long = attribute(CKA_LABEL, &long);
        let array = |type_, within: &[CK_ATTRIBUTE]| CK_ATTRIBUTE {
            type_,
            pValue: within.as_ptr().cast_mut().cast(),
            ulValueLen: size_of_val(within) as CK_ULONG,
        };
        let within = [long, attribute(CKA_ID, &[])];
        let around = [long, array(CKA_UNWRAP_TEMPLATE, &within), attribute(CKA_ID, &[7])];
        let (class, kind) = (CKO_SECRET_KEY.to_ne_bytes(), CKK_AES.to_ne_bytes());
        let arrays = [CKA_WRAP_TEMPLATE, CKA_UNWRAP_TEMPLATE, CKA_DERIVE_TEMPLATE];
        let mut template = vec![
            attribute(CKA_CLASS, &class),
            attribute(CKA_KEY_TYPE, &kind),
            attribute(CKA_VALUE, &[7; 16]),
            flag(CKA_TOKEN, &CK_TRUE),
        ];
        template.extend(arrays.map(|kind| array(kind, &around)));
        let mut handle = 0;
        let count = template.len() as CK_ULONG;
        ok!(token, C_CreateObject(token.session, template.as_mut_ptr(), count, &raw mut handle));
        handle
    }

    /// Makes the keys that take longer to generate or to read.
    pub(super) fn make_slow(token: &Token) {
        let number = |number: CK_ULONG| number.to_ne_bytes().to_vec();
        let prime: Vec<_> = (0..PRIME.len() / 2).map(|at| byte(&PRIME[2 * at..])).collect();
        let rsa: [&[_]; 2] = [
            &[CKA_VERIFY, CKA_VERIFY_RECOVER, CKA_ENCRYPT, CKA_WRAP],
            &[CKA_SIGN, CKA_SIGN_RECOVER, CKA_DECRYPT, CKA_UNWRAP],
        ];
        let kem: [&[_]; 2] = [&[CKA_ENCAPSULATE], &[CKA_DECAPSULATE]];
        let set = |set| [(CKA_PARAMETER_SET, number(set))];
        pair(token, CKM_RSA_PKCS_KEY_PAIR_GEN, &[(CKA_MODULUS_BITS, number(2048))], rsa);
        pair(token, CKM_ML_KEM_KEY_PAIR_GEN, &set(CKP_ML_KEM_512), kem);
        pair(token, CKM_SLH_DSA_KEY_PAIR_GEN, &set(CKP_SLH_DSA_SHAKE_128F), SIGNING);
        let dh = [(CKA_PRIME, prime), (CKA_BASE, vec![2])];
        pair(token, CKM_DH_PKCS_KEY_PAIR_GEN, &dh, AGREEING);
    }

    fn byte(digits: &str) -> u8 {
        u8::from_str_radix(&digits[..2], 16).expect("two digits")
    }

    type Values = [(CK_ATTRIBUTE_TYPE, Vec<u8>)];

    fn pair(token: &Token, id: CK_MECHANISM_TYPE, values: &Values, uses: [&[CK_ATTRIBUTE_TYPE]; 2]) {
        let (mut first, mut second) = (template(values, uses[0]), template(&[], uses[1]));
        second.extend([flag(CKA_SENSITIVE, &CK_FALSE), flag(CKA_EXTRACTABLE, &CK_TRUE)]);
        let mut with = CK_MECHANISM { mechanism: id, pParameter: null_mut(), ulParameterLen: 0 };
        let mut handles = [0; 2];
        ok!(
            token,
            C_GenerateKeyPair(
                token.session,
                &raw mut with,
                first.as_mut_ptr(),
                first.len() as CK_ULONG,
                second.as_mut_ptr(),
                second.len() as CK_ULONG,
                &raw mut handles[0],
                &raw mut handles[1],
            )
        );
    }

    fn generate(token: &Token, id: CK_MECHANISM_TYPE, values: &Values, uses: &[CK_ATTRIBUTE_TYPE]) {
        let mut template = template(values, uses);
        template.extend([flag(CKA_SENSITIVE, &CK_FALSE), flag(CKA_EXTRACTABLE, &CK_TRUE)]);
        let mut with = CK_MECHANISM { mechanism: id, pParameter: null_mut(), ulParameterLen: 0 };
        let mut handle = 0;
        let count = template.len() as CK_ULONG;
        ok!(
            token,
            C_GenerateKey(token.session, &raw mut with, template.as_mut_ptr(), count, &raw mut handle)
        );
    }

    fn template(values: &Values, uses: &[CK_ATTRIBUTE_TYPE]) -> Vec<CK_ATTRIBUTE> {
        let values = values.iter().map(|(id, value)| attribute(*id, value));
        let uses = uses.iter().map(|id| flag(*id, &CK_TRUE));
        values.chain(uses).chain([flag(CKA_TOKEN, &CK_TRUE)]).collect()
    }

    pub(super) fn attribute(type_: CK_ATTRIBUTE_TYPE, value: &[u8]) -> CK_ATTRIBUTE {
        let ulValueLen = value.len() as CK_ULONG;
        CK_ATTRIBUTE { type_, pValue: pointer(value).cast(), ulValueLen }
    }

    pub(super) fn flag(type_: CK_ATTRIBUTE_TYPE, value: &'static CK_BBOOL) -> CK_ATTRIBUTE {
        CK_ATTRIBUTE { type_, pValue: std::ptr::from_ref(value).cast_mut().cast(), ulValueLen: 1 }
    }
}
