//! Limits of a process: lockable memory, stack, total memory.

use jeton_secret::Secret;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::*;

const KIB: u64 = 1 << 10;
/// The number and the length of the secrets of a child. Together they need more than one chunk of
/// memory for secrets.
const SECRETS: usize = 32;
const SECRET: usize = 8 << 10;

pub fn limit(resource: Resource, amount: u64) {
    let maximum = getrlimit(resource).maximum;
    setrlimit(resource, Rlimit { current: Some(amount), maximum }).expect("a limit below the hard one");
}

/// Returns the number in a line of /proc/self/status, in bytes.
fn status(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("a proc file system");
    let line = text.lines().find(|line| line.starts_with(name)).expect("a line");
    line.split_whitespace().nth(1).and_then(|number| number.parse::<u64>().ok()).expect("a number") * KIB
}

// Locked memory.

/// The argument is the limit, and whether the system refuses all advice about memory.
pub fn locks_child() {
    let (bytes, refused) = argument();
    limit(Resource::Memlock, bytes);
    if refused {
        refuse_advice();
    }
    let directory = directory();
    let log = directory.path().join("log");
    let module = Module::new();
    for _ in 0..2 {
        let more = format!(", log = {{ file = '{}' }}", log.display());
        module.initialize(Some(&directory.parameters(Provider::ALL[0], &more))).expect("a module");
        let slot = module.slots().expect("slots")[0];
        let session = module.open_session(slot, Access::ReadWrite).expect("a session");
        module.login(session, User::User, PIN).expect("the user");
        module.finalize().expect("a module");
    }
    let _secrets: Vec<_> = (0..SECRETS).map(|_| Secret::zeroed(SECRET)).collect();
    println!("locked {}", status("VmLck"));
    let log = std::fs::read_to_string(log).expect("a log");
    log.lines().filter(|line| line.contains("RLIMIT_MEMLOCK")).for_each(|line| println!("said {line}"));
    log.lines().filter(|line| line.contains("core dumps")).for_each(|line| println!("dumped {line}"));
}

/// Makes the system refuse all advice about memory (madvise(2)) to this thread.
fn refuse_advice() {
    const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    const IS: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
    let step = |code: u32, jf, k| libc::sock_filter { code: code as u16, jt: 0, jf, k };
    let mut steps = [
        step(LOAD, 0, 0),
        step(IS, 1, libc::SYS_madvise as u32),
        step(RETURN, 0, libc::SECCOMP_RET_ERRNO | libc::EINVAL as u32),
        step(RETURN, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: no pointers.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0);
    let mode = libc::SECCOMP_MODE_FILTER;
    // SAFETY: the program and its steps are live.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program) }, 0);
}

/// Returns whether this process may have that limit on locked memory. If not, prints a line that
/// says so.
fn may_lock(bytes: u64) -> bool {
    let allowed = getrlimit(Resource::Memlock).maximum.is_none_or(|most| bytes <= most);
    if !allowed {
        println!("not tried: a limit of {bytes} bytes, above the hard limit of this process");
    }
    allowed
}

/// If the system refuses advice about memory, the module still locks all of its secrets, and logs
/// one error.
fn locks_without_advice() {
    const LIMIT: u64 = 1 << 20;
    if !may_lock(LIMIT) {
        return;
    }
    let said = Process::start("locks", &token(), (LIMIT, true)).wait();
    let locked = said.iter().find_map(|line| line.strip_prefix("locked ")).expect("a number");
    println!("without advice: {locked} bytes locked");
    assert!(locked.parse::<usize>().expect("a number") >= SECRETS * SECRET, "{locked} bytes are locked");
    assert_eq!(said.iter().filter(|line| line.starts_with("dumped ")).count(), 1, "{said:?}");
}

/// A refused lock is logged once as an error. Half of the limit stays for the application.
pub fn locks() {
    locks_without_advice();
    for bytes in [0, 64 * KIB, 16 << 20] {
        if !may_lock(bytes) {
            continue;
        }
        let directory = token();
        let said = Process::start("locks", &directory, (bytes, false)).wait();
        let locked = said.iter().find_map(|line| line.strip_prefix("locked ")).expect("a number");
        let locked: u64 = locked.parse().expect("a number");
        let lines: Vec<_> = said.iter().filter_map(|line| line.strip_prefix("said ")).collect();
        println!("limit {bytes}: {locked} bytes locked, {} lines", lines.len());
        assert!(locked <= bytes / 2, "{locked} of {bytes} bytes are locked");
        assert_eq!(locked > 0, bytes > 0, "{locked} of {bytes} bytes are locked");
        assert_eq!(lines.len(), usize::from(bytes < 8 << 20), "{lines:?}");
        assert!(lines.iter().all(|line| line.contains("ERROR") && line.contains("ulimit -l")), "{lines:?}");
    }
}

// Stacks.

/// The stack in KiB with which a thread must be able to use each type of key: half of the default
/// of musl. The application has the other half.
const STACK: u64 = 64;

fn every_kind() -> Vec<Kind> {
    let mut kinds = Kind::PAIRS.to_vec();
    kinds.extend([Kind::X25519, Kind::X448, Kind::Dh]);
    kinds.extend(Kind::ENCAPSULATING);
    kinds.extend(Kind::SECRETS);
    kinds
}

fn use_key(client: &Client, kind: Kind) {
    let session = client.user();
    let (public, private) = if kind == Kind::Rsa {
        client.generate(session, kind.generator(), &kind.request(), &none()).expect("a pair")
    } else {
        pair(client, session, kind, &none())
    };
    let sign = |mechanism: &Mechanism| {
        let signature = client.sign(session, mechanism, private, b"data").expect("a signature");
        client.verify(session, mechanism, public, b"data", &signature).expect("a good signature");
    };
    match kind.key_type() {
        KeyType::RSA => {
            sign(&plain(M::SHA256_RSA_PKCS));
            crypt(client, session, &plain(M::RSA_PKCS), (public, private));
        }
        KeyType::EC => {
            sign(&plain(M::ECDSA_SHA256));
            agree(client, session, (public, private));
        }
        KeyType::EC_EDWARDS => sign(&plain(M::EDDSA)),
        KeyType::EC_MONTGOMERY => agree(client, session, (public, private)),
        KeyType::ML_DSA => sign(&plain(M::ML_DSA)),
        KeyType::JETON_COMPOSITE_ML_DSA => sign(&plain(M::JETON_COMPOSITE_ML_DSA)),
        KeyType::SLH_DSA => sign(&plain(M::SLH_DSA)),
        KeyType::AES => {
            sign(&plain(M::AES_CMAC));
            crypt(client, session, &plain(M::AES_ECB), (public, private));
        }
        KeyType::ML_KEM => {
            let (mechanism, template) = (plain(M::ML_KEM), none());
            let mut sealed = [0; 4096];
            let out = Output::Buffer(&mut sealed);
            let made = client.encapsulate_key(session, &mechanism, public, &template.template(), out);
            let (len, _) = made.expect("a key");
            let opened =
                client.decapsulate_key(session, &mechanism, private, &template.template(), &sealed[..len]);
            opened.expect("a key");
        }
        KeyType::DH => {
            let value = client.read(session, public, A::VALUE).expect("a value");
            let mechanism = Mechanism { params: Params::Data(value.into()), ..plain(M::DH_PKCS_DERIVE) };
            client.derive_key(session, &mechanism, private, &none().template()).expect("a secret");
        }
        _ => sign(&plain(M::SHA256_HMAC)),
    }
    client.logout(session).expect("the user");
    client.close_session(session).expect("a session");
}

type Pair = (ObjectHandle, ObjectHandle);

fn agree(client: &Client, session: SessionHandle, (public, private): Pair) {
    let peer = client.read(session, public, A::EC_POINT).expect("a point").into();
    let params = Params::Ecdh { kdf: None, shared: Box::default(), peer };
    let mechanism = Mechanism { params, ..plain(M::ECDH1_DERIVE) };
    client.derive_key(session, &mechanism, private, &none().template()).expect("a secret");
}

fn crypt(client: &Client, session: SessionHandle, mechanism: &Mechanism, (public, private): Pair) {
    let (mut sealed, mut opened) = ([0; 512], [0; 512]);
    client.encrypt_init(session, mechanism, public).expect("an operation");
    let len = client.encrypt(session, &[7; 32], Output::Buffer(&mut sealed)).expect("a ciphertext");
    client.decrypt_init(session, mechanism, private).expect("an operation");
    client.decrypt(session, &sealed[..len], Output::Buffer(&mut opened)).expect("a plaintext");
}

/// The argument is the backend, the size of the stack in KiB, and the kinds of keys.
pub fn stack_child() {
    let (backend, kib, names): (String, usize, Vec<String>) = argument();
    let client = with(&directory(), 10, Provider::named(&backend).expect("a backend"));
    for kind in every_kind().into_iter().filter(|kind| names.contains(&format!("{kind:?}"))) {
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(kib << 10);
            thread.spawn_scoped(scope, || use_key(&client, kind)).expect("a thread");
        });
    }
}

/// Every type of key can be used by a thread with `STACK` KiB of stack. `JETON_CRASH_STACKS=1` also
/// tries other sizes, and prints the smallest for each type of key.
pub fn stacks() {
    let directory = token();
    let mut died = Vec::new();
    for provider in Provider::ALL {
        let lives = |kib: u64, kinds: &[Kind]| {
            let names: Vec<_> = kinds.iter().map(|kind| format!("{kind:?}")).collect();
            Process::start("stack", &directory, (provider.name, kib, names)).lives()
        };
        if number("JETON_CRASH_STACKS", 0) == 1 {
            for kind in every_kind() {
                let sizes = [32, 48, 64, 96, 128, 192, 256];
                let least = sizes.into_iter().find(|kib| lives(*kib, &[kind]));
                println!("{} {kind:?}: {least:?} KiB", provider.name);
            }
        }
        // One process for all kinds. If it dies, one for each kind shows which kinds are to blame.
        if !lives(STACK, &every_kind()) {
            let dead = every_kind().into_iter().filter(|kind| !lives(STACK, &[*kind]));
            died.extend(dead.map(|kind| format!("{} {kind:?}", provider.name)));
            died.push(format!("{}: a process with all kinds", provider.name));
        }
    }
    assert!(died.is_empty(), "on a stack of {STACK} KiB these end the process: {died:?}");
}

// Memory.

/// The length of an input in bytes. The child has memory for at most one copy of it.
const LONG: usize = 32 << 20;

pub fn memory_child() {
    let provider = Provider::named(&argument::<String>()).expect("a backend");
    let client = with(&directory(), 10, provider);
    let session = client.user();
    let aes = pair(&client, session, Kind::Aes, &none()).0;
    let hmac = pair(&client, session, Kind::Generic, &none()).0;
    let [ed25519, ml_dsa] =
        [Kind::Ed25519, Kind::MlDsa44].map(|kind| pair(&client, session, kind, &none()).1);
    let (data, module) = (vec![7; LONG], &client.module);
    let aead = |id, data_len| {
        let bare = plain(id);
        let cipher = bare.info.aead().expect("an authenticated cipher");
        Mechanism { params: aead_params(cipher, &[9; 7], &[], 16, data_len), ..bare }
    };
    limit(Resource::As, status("VmSize") + (LONG as u64) * 3 / 2);
    let expect = |what: &str, part: &dyn Fn() -> Result<usize, Error>| {
        let failed = (0..8).find_map(|_| part().err());
        println!("{what}: {failed:?}");
        assert_eq!(failed, Some(Error::HostMemory), "{what}");
    };
    module.decrypt_init(session, &aead(M::AES_GCM, 0), aes).expect("an operation");
    expect("C_DecryptUpdate, GCM", &|| module.decrypt_update(session, &data, Output::Buffer(&mut [])));
    module.decrypt_cancel(session).ok();
    module.encrypt_init(session, &aead(M::AES_CCM, 8 * LONG), aes).expect("an operation");
    expect("C_EncryptUpdate, CCM", &|| module.encrypt_update(session, &data, Output::Buffer(&mut [])));
    module.encrypt_cancel(session).ok();
    module.encrypt_init(session, &plain(M::AES_KEY_WRAP_KWP), aes).expect("an operation");
    expect("C_EncryptUpdate, KWP", &|| module.encrypt_update(session, &data, Output::Buffer(&mut [])));
    module.encrypt_cancel(session).ok();
    for (what, key, id) in
        [("EdDSA", ed25519, M::EDDSA), ("ML-DSA", ml_dsa, M::ML_DSA), ("TLS", hmac, M::TLS_PRF_GENERAL)]
    {
        module.sign_init(session, &plain(id), key).expect("an operation");
        expect(&format!("C_SignUpdate, {what}"), &|| module.sign_update(session, &data).map(|()| 0));
        module.sign_cancel(session).ok();
    }
    let template = key_object(ObjectClass::SECRET_KEY, KeyType::GENERIC_SECRET);
    // Less memory is left than a copy of `data` needs.
    limit(Resource::As, status("VmSize") + (LONG as u64) / 2);
    expect("C_UnwrapKey", &|| {
        module.unwrap_key(session, &plain(M::AES_KEY_WRAP_KWP), aes, &data, &template.template()).map(|_| 0)
    });
    expect("C_VerifySignatureInit", &|| {
        module.verify_signature_init(session, &plain(M::SHA256_HMAC), hmac, &data).map(|()| 0)
    });
    // The session continues.
    client.sign(session, &plain(M::EDDSA), ed25519, b"data").expect("a signature");
    println!("done");
}

/// Without memory a call fails with `CKR_HOST_MEMORY`, and the process continues.
pub fn memory() {
    for provider in Provider::ALL {
        let directory: Arc<Directory> = token();
        let said = Process::start("short", &directory, provider.name).wait();
        said.iter().for_each(|line| println!("{}: {line}", provider.name));
        assert_eq!(said.last().map(String::as_str), Some("done"));
    }
}
