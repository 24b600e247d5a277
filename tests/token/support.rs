//! Helpers of the token tests: a module with its own token, and templates that own their values.

use std::ffi::c_ulong;
use std::fs::File;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jeton::backend::{AeadScheme, CipherScheme, Direction, Hash, Provider};
use jeton::error::Result;
use jeton::functions::{Access, Output, User};
use jeton::id::{AttributeType as A, MechanismType, ObjectClass, ObjectHandle, SessionHandle, SlotId};
use jeton::mechanism::{self, Action, Mechanism, Params};
use jeton::object::AttributeView;
use jeton::object::template::{Given, Raw, Template};
pub use jeton_vectors::hex;

#[path = "functions.rs"]
mod functions;
#[path = "server.rs"]
pub mod server;

pub use functions::Functions;
use server::Server;

pub const SO_PIN: &[u8] = b"the officer's";
pub const PIN: &[u8] = b"the user's";
pub const LABEL: &[u8; 32] = b"a token of the tests            ";

/// The default backend. It is for behaviour that no backend can change.
pub const DEFAULT: &Provider = Provider::ALL[0];

/// Runs a test once per backend. In the output of a failed test, the last line that begins
/// with `backend` names the backend that failed.
pub fn each_backend(test: impl Fn(&'static Provider)) {
    for provider in Provider::ALL {
        println!("backend {}", provider.name);
        test(provider);
    }
}

/// Runs a test once per backend, in a session of the user of a new token.
pub fn each_user(test: impl Fn(&Client, SessionHandle)) {
    each_backend(|provider| {
        let client = Client::new(provider);
        test(&client, client.user());
    });
}

/// Returns an application with the default backend on a new token, and a session of its user.
pub fn one_user() -> (Client, SessionHandle) {
    let client = Client::new(DEFAULT);
    let session = client.user();
    (client, session)
}

/// Returns two applications with the default backend on a new token, each with a session of the
/// user. The second one acts as another process.
pub fn two_users() -> [(Client, SessionHandle); 2] {
    let (one, mine) = one_user();
    let two = Client::beside(&one.directory, DEFAULT, "");
    let theirs = two.user();
    [(one, mine), (two, theirs)]
}
/// Releases the lock on a file after 70 seconds. No test allows a call to wait that long. So a call
/// that waits without a limit fails its test, and does not block it forever.
pub fn release_later(holder: &File) {
    let holder = holder.try_clone().expect("the lock");
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(70));
        holder.unlock()
    });
}

/// An environment variable. With the value `postgresql`, the tests store tokens in PostgreSQL
/// instead of files.
const STORE: &str = "JETON_TEST_STORE";
/// An environment variable with the format of new token files, such as `fips`.
pub const FORMAT: &str = "JETON_TEST_FORMAT";
/// The name of a file in the directory of the tokens. It contains the address of the server.
const URL: &str = "url";

/// Returns the files in a directory and in the directories there.
pub fn files_below(directory: &Path) -> Vec<PathBuf> {
    let entries = |path: &Path| {
        let entries = std::fs::read_dir(path).expect("the directory");
        entries.map(|entry| entry.expect("an entry").path()).collect::<Vec<_>>()
    };
    let (directories, mut files): (Vec<_>, _) =
        entries(directory).into_iter().partition(|path| path.is_dir());
    files.extend(directories.iter().flat_map(|path| entries(path)));
    files
}

/// Copies the files in a directory and in the directories there.
#[allow(dead_code, reason = "for the crash tests")]
pub fn copy_files(from: &Path, to: &Path) {
    for file in files_below(from) {
        let copy = to.join(file.strip_prefix(from).expect("a file of the directory"));
        std::fs::create_dir_all(copy.parent().expect("a directory")).expect("a directory");
        std::fs::copy(file, copy).expect("a copy");
    }
}

/// A directory of tokens. Dropping this value removes the directory. If the tests use PostgreSQL,
/// the tokens are in a schema of its database. The name of the schema comes from the name of the
/// directory.
pub struct Directory {
    path: PathBuf,
    ours: bool,
}

impl Directory {
    pub fn new() -> Arc<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("jeton-test-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory");
        let directory = Arc::new(Self { path, ours: true });
        if std::env::var(STORE).is_ok_and(|store| store == "postgresql") {
            directory.use_server(Server::shared().expect("PostgreSQL is installed"));
        }
        directory
    }

    /// Returns the path of the token file, whose extension is `jeton`, or of a file beside it.
    pub fn file(&self, extension: &str) -> PathBuf {
        let fits = |path: &PathBuf| path.extension().is_some_and(|known| known == extension);
        files_below(&self.path).into_iter().find(fits).expect("a file")
    }

    /// Moves the token file out of its own directory, so that the token is flat, as older versions
    /// made it. No module may have it open. Returns the new path.
    #[allow(dead_code, reason = "for the tests of the files")]
    pub fn flatten(&self) -> PathBuf {
        let file = self.file("jeton");
        let flat = self.path.join(file.file_name().expect("a name"));
        std::fs::rename(&file, &flat).expect("the token file");
        std::fs::remove_dir_all(file.parent().expect("a directory")).expect("its own directory");
        flat
    }

    /// Returns the number of descriptors of this process for files of this directory.
    pub fn descriptors(&self) -> usize {
        let links = std::fs::read_dir("/proc/self/fd").expect("descriptors").flatten();
        let targets = links.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        targets.filter(|target| target.starts_with(&self.path)).count()
    }

    /// Makes the modules of this directory store their tokens on a server.
    pub fn use_server(&self, server: &Server) {
        self.use_url(&server.url());
    }

    /// Makes the modules of this directory store their tokens at this address. A module that runs
    /// keeps its address.
    pub fn use_url(&self, url: &str) {
        std::fs::write(self.path.join(URL), url).expect("a file");
    }

    /// Returns the name of the schema that contains the tokens.
    pub fn schema(&self) -> String {
        let name = self.path.file_name().expect("a name").to_string_lossy();
        name.replace('-', "_").to_lowercase()
    }

    /// Returns a directory that another process made. Dropping the value does not remove it.
    #[allow(dead_code, reason = "for the test binary that starts processes")]
    pub fn lent(path: &Path) -> Arc<Self> {
        Arc::new(Self { path: path.to_owned(), ours: false })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the configuration of a module that keeps its counters in this directory.
    pub fn for_counters(&self) -> String {
        format!(", store = {{ counter-dir = '{}' }}", self.path.display())
    }

    /// Returns the parameters of a module with tokens in this directory. The key derivation of PINs
    /// has the lowest allowed cost.
    pub fn parameters(&self, provider: &Provider, more: &str) -> String {
        let more = &self.with_server(more);
        format!(
            "token-dir = '{}', backend = '{}', pin = {{ memory-kib = 8, passes = 1, retries = 3, uncounted-delay = 0 }} {more}",
            self.path.display(),
            provider.name
        )
    }

    /// Adds the format of the tests, and the server, if there is one, to the section `store` of a
    /// configuration.
    pub fn with_server(&self, more: &str) -> String {
        let format = std::env::var(FORMAT).map(|format| format!("{more}, token-format = '{format}'"));
        let more = &format.unwrap_or_else(|_| more.to_owned());
        let Ok(url) = std::fs::read_to_string(self.path.join(URL)) else { return more.to_owned() };
        let keys = format!("url = '{url}', schema = '{}'", self.schema());
        match more.split_once("store = {") {
            Some((before, after)) => format!("{before}store = {{ {keys}, {after}"),
            None => format!("{more}, store = {{ {keys} }}"),
        }
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if self.ours {
            std::fs::remove_dir_all(&self.path).expect("the directory of a test");
        }
    }
}

/// An application with its own module. Several clients can share a directory: the second one acts
/// as another process.
pub struct Client {
    pub module: Functions,
    pub slot: SlotId,
    pub directory: Arc<Directory>,
}

impl Deref for Client {
    type Target = Functions;

    fn deref(&self) -> &Functions {
        &self.module
    }
}

impl Client {
    /// Creates a token with an SO PIN and a user PIN, without a login. The module offers the legacy
    /// mechanisms.
    pub fn new(provider: &Provider) -> Self {
        Self::with(provider, ", mechanisms = { legacy = true }")
    }

    /// Creates a token with an SO PIN and a user PIN. `configuration` is added to the parameters of
    /// the module.
    pub fn with(provider: &Provider, configuration: &str) -> Self {
        Self::initialise(&Directory::new(), provider, configuration)
    }

    /// Creates a token with an SO PIN and a user PIN in an existing directory.
    pub fn initialise(directory: &Arc<Directory>, provider: &Provider, configuration: &str) -> Self {
        let client = Self::beside(directory, provider, configuration);
        client.make_token(client.slot, PIN);
        client
    }

    /// Initialises the token of a slot, and sets the user's PIN.
    pub fn make_token(&self, slot: SlotId, pin: &[u8]) {
        self.init_token(slot, SO_PIN, LABEL).expect("a token");
        let session = self.open_session(slot, Access::ReadWrite).expect("a session");
        self.set_user_pin(session, pin);
        self.close_session(session).expect("a session");
    }

    /// Sets the user's PIN as the SO. No user is logged in before and after.
    pub fn set_user_pin(&self, session: SessionHandle, pin: &[u8]) {
        self.module.login(session, User::SecurityOfficer, SO_PIN).expect("the SO");
        self.init_pin(session, pin).expect("the user's PIN");
        self.logout(session).expect("the SO");
    }

    /// Starts a module with the tokens of an existing directory.
    pub fn beside(directory: &Arc<Directory>, provider: &Provider, configuration: &str) -> Self {
        Self::start(directory, &directory.parameters(provider, configuration)).expect("a module")
    }

    /// Starts a module with these parameters. Its slot is the first one.
    pub fn start(directory: &Arc<Directory>, parameters: &str) -> Result<Self> {
        let module = Functions::new();
        module.initialize(Some(parameters))?;
        let slot = module.slots()?.first().copied().unwrap_or(SlotId(0));
        Ok(Self { module, slot, directory: Arc::clone(directory) })
    }

    /// Starts a module in which a PIN takes long to try, so that another thread can act meanwhile.
    /// Each PIN record is replaced by a slow one when its PIN logs in.
    pub fn slow(directory: &Arc<Directory>, provider: &Provider) -> Self {
        let parameters = directory.parameters(provider, "").replace("memory-kib = 8", "memory-kib = 200000");
        Self::start(directory, &parameters).expect("a module")
    }

    pub fn open(&self) -> SessionHandle {
        self.open_session(self.slot, Access::ReadWrite).expect("a session")
    }

    pub fn user(&self) -> SessionHandle {
        let session = self.open();
        self.login(session);
        session
    }

    pub fn login(&self, session: SessionHandle) {
        self.module.login(session, User::User, PIN).expect("the user");
    }

    /// Returns the flags of the token (`CKF_*`).
    pub fn flags(&self) -> u64 {
        self.token(self.slot).expect("a token").flags
    }

    pub fn create(&self, session: SessionHandle, attributes: &Attributes) -> Result<ObjectHandle> {
        self.create_object(session, &attributes.template())
    }

    pub fn copy(
        &self,
        session: SessionHandle,
        object: ObjectHandle,
        changes: &Attributes,
    ) -> Result<ObjectHandle> {
        self.copy_object(session, object, &changes.template())
    }

    pub fn set(&self, session: SessionHandle, object: ObjectHandle, changes: &Attributes) -> Result<()> {
        self.set_attributes(session, object, &changes.template())
    }

    pub fn generate(
        &self,
        session: SessionHandle,
        mechanism: MechanismType,
        public: &Attributes,
        private: &Attributes,
    ) -> Result<(ObjectHandle, ObjectHandle)> {
        let mechanism = plain(mechanism);
        self.generate_key_pair(session, &mechanism, &public.template(), &private.template())
    }

    pub fn generate_key(
        &self,
        session: SessionHandle,
        mechanism: MechanismType,
        template: &Attributes,
    ) -> Result<ObjectHandle> {
        self.module.generate_key(session, &plain(mechanism), &template.template())
    }

    /// Runs `work` as the SO. The user is logged in before and after.
    pub fn as_so<T>(&self, session: SessionHandle, work: impl FnOnce() -> T) -> T {
        self.logout(session).expect("the user");
        self.module.login(session, User::SecurityOfficer, SO_PIN).expect("the SO");
        let out = work();
        self.logout(session).expect("the SO");
        self.login(session);
        out
    }

    /// Lets the SO mark a key as trusted.
    pub fn trust(&self, session: SessionHandle, key: ObjectHandle) {
        let trusted = Attributes::default().flag(A::TRUSTED, true);
        self.as_so(session, || self.set(session, key, &trusted).expect("trust"));
    }

    pub fn create_with(
        &self,
        session: SessionHandle,
        own: &Attributes,
        id: A,
        inner: &Attributes,
    ) -> Result<ObjectHandle> {
        self.create_object(session, &own.within(id, inner))
    }

    pub fn wrap(
        &self,
        session: SessionHandle,
        mechanism: &Mechanism,
        by: ObjectHandle,
        key: ObjectHandle,
    ) -> Result<Vec<u8>> {
        let mut out = vec![0; 20_000];
        let len = self.wrap_key(session, mechanism, by, key, Output::Buffer(&mut out))?;
        out.truncate(len);
        Ok(out)
    }

    pub fn unwrap(
        &self,
        session: SessionHandle,
        mechanism: &Mechanism,
        by: ObjectHandle,
        wrapped: &[u8],
        template: &Attributes,
    ) -> Result<ObjectHandle> {
        self.unwrap_key(session, mechanism, by, wrapped, &template.template())
    }

    /// Encapsulates a key with ML-KEM. Returns the ciphertext and the key.
    pub fn encapsulate(
        &self,
        session: SessionHandle,
        public: ObjectHandle,
        template: &Template<'_>,
    ) -> Result<(Vec<u8>, ObjectHandle)> {
        let (kem, mut out) = (plain(MechanismType::ML_KEM), vec![0; 1568]);
        let made = self.encapsulate_key(session, &kem, public, template, Output::Buffer(&mut out));
        made.map(|(len, key)| (out[..len].to_vec(), key.expect("a key")))
    }

    pub fn find(&self, session: SessionHandle, wanted: &Attributes) -> Vec<ObjectHandle> {
        self.find_init(session, &wanted.template()).expect("a search");
        let mut found = Vec::new();
        let mut some = [ObjectHandle(0); 7];
        loop {
            match self.module.find(session, &mut some).expect("a search") {
                0 => break,
                count => found.extend_from_slice(&some[..count]),
            }
        }
        self.find_final(session).expect("a search");
        found
    }

    /// Returns the only object that a search finds.
    pub fn find_one(&self, session: SessionHandle, wanted: &Attributes) -> ObjectHandle {
        let found = self.find(session, wanted);
        assert_eq!(found.len(), 1, "objects found");
        found[0]
    }

    /// Reads a value. Returns no bytes for a template attribute.
    pub fn read(&self, session: SessionHandle, object: ObjectHandle, id: A) -> Result<Vec<u8>> {
        match self.object(session, object)?.attribute(id)? {
            AttributeView::Bytes(bytes) => Ok(bytes.into_owned()),
            AttributeView::Template(_) | AttributeView::Length(_) => Ok(Vec::new()),
        }
    }

    pub fn flag(&self, session: SessionHandle, object: ObjectHandle, id: A) -> bool {
        self.read(session, object, id).expect("a flag") == [1]
    }

    pub fn number(&self, session: SessionHandle, object: ObjectHandle, id: A) -> u64 {
        let bytes = self.read(session, object, id).expect("a number");
        c_ulong::from_ne_bytes(bytes.try_into().expect("the size of a number"))
    }

    pub fn sign(
        &self,
        session: SessionHandle,
        mechanism: &Mechanism,
        key: ObjectHandle,
        data: &[u8],
    ) -> Result<Vec<u8>> {
        self.sign_init(session, mechanism, key)?;
        let mut out = vec![0; self.module.sign(session, data, Output::Length)?];
        let len = self.module.sign(session, data, Output::Buffer(&mut out))?;
        out.truncate(len);
        Ok(out)
    }

    /// Encrypts or decrypts in one part, into a buffer of the length that the function asks for.
    pub fn crypt(
        &self,
        session: SessionHandle,
        direction: Direction,
        mechanism: &Mechanism,
        key: ObjectHandle,
        data: &[u8],
    ) -> Result<Vec<u8>> {
        let once = |out: Output<'_>| match direction {
            Direction::Encrypt => self.encrypt(session, data, out),
            Direction::Decrypt => self.decrypt(session, data, out),
        };
        match direction {
            Direction::Encrypt => self.encrypt_init(session, mechanism, key)?,
            Direction::Decrypt => self.decrypt_init(session, mechanism, key)?,
        }
        let mut out = vec![0; once(Output::Length)?];
        let len = once(Output::Buffer(&mut out))?;
        out.truncate(len);
        Ok(out)
    }

    pub fn verify(
        &self,
        session: SessionHandle,
        mechanism: &Mechanism,
        key: ObjectHandle,
        data: &[u8],
        signature: &[u8],
    ) -> Result<()> {
        self.verify_init(session, mechanism, key)?;
        self.module.verify(session, data, signature)
    }
}

pub fn plain(id: MechanismType) -> Mechanism {
    let info = mechanism::find(id).expect("a row");
    let scheme = match info.action {
        Action::Cipher(mode) => mode.scheme(&[]).ok(),
        _ => None,
    };
    Mechanism { info: info.word(), params: scheme.map_or(Params::None, Params::Cipher) }
}

/// Returns a cipher mechanism whose parameter is an initialisation vector.
pub fn with_iv(id: MechanismType, iv: &[u8]) -> Mechanism {
    let info = mechanism::find(id).expect("a row");
    let Action::Cipher(mode) = info.action else { panic!("{id} is not a cipher") };
    Mechanism {
        info: info.word(),
        params: Params::Cipher(mode.scheme(iv).expect("an initialisation vector")),
    }
}

pub fn oaep(hash: Hash, mgf: Hash, label: &[u8]) -> Mechanism {
    Mechanism {
        params: Params::Oaep { hash, mgf, label: label.into() },
        ..plain(MechanismType::RSA_PKCS_OAEP)
    }
}

pub fn aead_params(cipher: AeadScheme, nonce: &[u8], aad: &[u8], tag_len: usize, data_len: usize) -> Params {
    Params::Cipher(CipherScheme::Aead { cipher, nonce: nonce.into(), aad: aad.into(), tag_len, data_len })
}

#[derive(Clone, Default)]
pub struct Attributes(Vec<(A, Vec<u8>)>);

impl Attributes {
    /// Returns a template that contains only `CKA_CLASS`.
    pub fn of(class: ObjectClass) -> Self {
        Self::default().number(A::CLASS, class.0)
    }

    pub fn bytes(mut self, id: A, value: &[u8]) -> Self {
        self.0.push((id, value.to_vec()));
        self
    }

    pub fn number(self, id: A, value: u64) -> Self {
        self.bytes(id, &(value as c_ulong).to_ne_bytes())
    }

    pub fn flag(self, id: A, value: bool) -> Self {
        self.bytes(id, &[u8::from(value)])
    }

    pub fn label(self, label: &str) -> Self {
        self.bytes(A::LABEL, label.as_bytes())
    }

    pub fn stored(self) -> Self {
        self.flag(A::TOKEN, true)
    }

    pub fn and(mut self, others: &Self) -> Self {
        self.0.extend_from_slice(&others.0);
        self
    }

    pub fn without(mut self, id: A) -> Self {
        self.0.retain(|(known, _)| *known != id);
        self
    }

    pub fn value(&self, id: A) -> &[u8] {
        &self.0.iter().find(|(known, _)| *known == id).expect("an attribute").1
    }

    pub fn has(&self, id: A) -> bool {
        self.ids().any(|known| known == id)
    }

    pub fn ids(&self) -> impl Iterator<Item = A> {
        self.0.iter().map(|(id, _)| *id)
    }

    pub fn within<'a>(&'a self, id: A, inner: &'a Self) -> Template<'a> {
        let mut template = self.template();
        template.0.push(Given { id, value: Raw::Template(inner.template()) });
        template
    }

    pub fn template(&self) -> Template<'_> {
        Template(self.0.iter().map(|(id, value)| Given { id: *id, value: Raw::Bytes(value) }).collect())
    }
}

pub fn none() -> Attributes {
    Attributes::default()
}

/// Returns the attributes of a key whose value can be read.
pub fn shown() -> Attributes {
    none().flag(A::SENSITIVE, false).flag(A::EXTRACTABLE, true)
}

pub fn data(label: &str) -> Attributes {
    Attributes::of(ObjectClass::DATA).label(label).bytes(A::VALUE, b"some data")
}
