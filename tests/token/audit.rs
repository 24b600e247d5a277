//! The audit log: its records, and the chain of its lines. The tests of `tool/src/audit.rs` show
//! that `jeton audit verify` finds an edit.

use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::sync::Barrier;

use jeton::audit::{Audit, ObjectName, Record};
use jeton::functions::Threads;
use jeton::mechanism::message::MessageParams;
use jeton::object::AttributeView;
use jeton_words::token::{self, Function, Room, Token, worse};
use serde_json::{Value, json};

use crate::objects::aes;
use crate::prelude::*;

/// Creates a token with an audit log. Returns a client, and the path of the log.
fn audited(provider: &Provider) -> (Client, PathBuf) {
    let directory = Directory::new();
    let file = directory.path().join("audit.jsonl");
    let client = Client::beside(&directory, provider, &audits(&file));
    client.init_token(client.slot, SO_PIN, LABEL).expect("a token");
    (client, file)
}

/// Returns the configuration of a module with this audit log.
pub fn audits(file: &Path) -> String {
    format!(", audit = {{ file = '{}' }}", file.display())
}

/// Reads the lines of a log and checks that they form a chain, which may continue another file.
fn records(file: &PathBuf, provider: &Provider) -> Vec<Value> {
    let text = std::fs::read_to_string(file).expect("an audit log");
    let first = text.lines().next().and_then(|line| serde_json::from_str::<Value>(line).ok());
    let field = |name| first.as_ref().and_then(|first| first.get(name));
    let mut last = field("previous").map_or([0; 32], |hash| unhex(hash.as_str().expect("a hash")));
    let start = field("previous").map_or(1, |_| field("number").and_then(Value::as_u64).expect("a number"));
    let record = |(number, line): (u64, &str)| {
        let (body, hash) = line.split_once(",\"hash\":\"").expect("a hash");
        let chained = [&last[..], body.as_bytes(), b"}"].concat();
        provider.digest.hash(Hash::Sha256, &chained, &mut last).expect("a digest");
        let hex: String = last.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hash, format!("{hex}\"}}"), "{line}");
        let record: Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(record["number"], number);
        record
    };
    (start..).zip(text.lines()).map(record).collect()
}

fn unhex(text: &str) -> [u8; 32] {
    std::array::from_fn(|at| u8::from_str_radix(&text[2 * at..][..2], 16).expect("a digit"))
}

/// The file beside a log that has its last number and hash.
fn end_of(file: &Path) -> PathBuf {
    format!("{}.end", file.display()).into()
}

/// Begins a log without a history.
fn begin(file: &Path, content: &str) {
    std::fs::write(file, content).expect("a file");
    let _ = std::fs::remove_file(end_of(file));
}

/// Returns a record as short text.
fn said(record: &Value) -> String {
    let text = |name: &str| record[name].as_str().unwrap_or("-").to_owned();
    let count = record["objects"].as_array().map_or(0, Vec::len);
    [text("function"), text("user"), text("mechanism"), count.to_string(), text("result")].join(" ")
}

fn unique_id(client: &Client, session: SessionHandle, object: ObjectHandle) -> String {
    let object = client.object(session, object).expect("an object");
    match object.attribute(A::UNIQUE_ID) {
        Ok(AttributeView::Bytes(bytes)) => String::from_utf8_lossy(&bytes).into_owned(),
        _ => panic!("no identifier"),
    }
}

#[test]
fn logins_objects_and_uses_of_keys_are_recorded() {
    let (client, file) = audited(DEFAULT);
    let session = client.open();
    client.set_user_pin(session, PIN);
    let wrong = client.module.login(session, User::User, b"a wrong one");
    assert_eq!(wrong, Err(Error::PinIncorrect));
    assert_eq!(client.login_user(session, User::User, PIN, b"a name"), Err(Error::PinIncorrect));
    client.login_user(session, User::User, PIN, b"").expect("the user");
    client.logout(session).expect("the user");
    client.login(session);
    let names = Attributes::default().label("signer").bytes(A::ID, b"\x0a\x1b");
    let (public, private) = pair(&client, session, Kind::P256, &names);
    let named = unique_id(&client, session, private);
    client.sign(session, &plain(M::ECDSA_SHA256), private, b"data").expect("a signature");
    client.verify_init(session, &plain(M::ECDSA_SHA256), public).expect("an operation");
    assert_eq!(client.decrypt_init(session, &plain(M::AES_ECB), private), Err(Error::KeyTypeInconsistent));
    client.destroy_object(session, private).expect("an object");
    client.set_pin(session, PIN, b"another").expect("a PIN");
    client.finalize().expect("a module");

    let all = records(&file, DEFAULT);
    let short: Vec<_> = all.iter().map(said).collect();
    let expected = [
        "C_InitToken - - 0 Ok",
        "C_Login CKU_SO - 0 Ok",
        "C_InitPIN - - 0 Ok",
        "C_Logout - - 0 Ok",
        "C_Login CKU_USER - 0 PinIncorrect",
        "C_LoginUser CKU_USER - 0 PinIncorrect",
        "C_LoginUser CKU_USER - 0 Ok",
        "C_Logout - - 0 Ok",
        "C_Login CKU_USER - 0 Ok",
        "C_GenerateKeyPair - CKM_EC_KEY_PAIR_GEN 2 Ok",
        // `C_VerifyInit` is not recorded, because its key is public.
        "C_SignInit - CKM_ECDSA_SHA256 1 Ok",
        "C_DecryptInit - CKM_AES_ECB 1 KeyTypeInconsistent",
        "C_DestroyObject - - 1 Ok",
        "C_SetPIN - - 0 Ok",
    ];
    assert_eq!(short, expected);
    let signature = &all[10];
    assert_eq!(signature["objects"][0], named);
    assert_eq!(signature["names"][0], json!({ "label": "signer", "id": "0a1b" }));
    assert_eq!(signature["uid"], rustix::process::getuid().as_raw());
    assert_eq!(signature["process"], std::process::id());
    let program = std::env::current_exe().expect("a program");
    assert_eq!(signature["program"], program.file_name().expect("a name").to_string_lossy().as_ref());
    assert_eq!(signature["session"], session.0);
    let text = std::fs::read_to_string(&file).expect("an audit log");
    assert!(!text.contains("a wrong one") && !text.contains("another"), "a PIN in the log");
}

fn user(client: &Client) -> SessionHandle {
    let session = client.open();
    client.set_user_pin(session, PIN);
    client.login(session);
    session
}

#[test]
fn each_message_of_a_message_based_operation_is_recorded() {
    let (client, file) = audited(DEFAULT);
    let (module, session) = (&client.module, user(&client));
    let (_, private) = pair(&client, session, Kind::P256, &Attributes::default());
    let (secret, _) = pair(&client, session, Kind::Aes, &Attributes::default());
    let mut out = [0; 64];

    module.message_sign_init(session, &plain(M::ECDSA_SHA256), private).expect("an operation");
    assert_eq!(module.sign_message(session, b"data", Output::Length), Ok(64));
    let short = module.sign_message(session, b"data", Output::Buffer(&mut out[..63]));
    assert_eq!(short, Err(Error::BufferTooSmall { needed: 64 }));
    for _ in 0..3 {
        assert_eq!(module.sign_message(session, b"data", Output::Buffer(&mut out)), Ok(64));
    }
    module.sign_message_begin(session).expect("a message");
    module.sign_message_next(session, b"da").expect("a part");
    assert_eq!(module.sign_message_end(session, b"ta", Output::Buffer(&mut out)), Ok(64));
    module.message_sign_final(session).expect("an operation");

    for (direction, function) in
        [(Direction::Encrypt, Function::C_EncryptMessage), (Direction::Decrypt, Function::C_DecryptMessage)]
    {
        module.message_crypt_init(session, direction, &plain(M::AES_GCM), secret).expect("an operation");
        // A refused call uses no key, also if it only asks for the length.
        let refused = Token::refused(&**module, session, function, Error::MechanismParamInvalid);
        assert_eq!(refused, Error::MechanismParamInvalid);
        let mut params = MessageParams::new(AeadScheme::AesGcm, &[7; 12], 16).expect("a parameter");
        let whole = Output::Buffer(&mut out[..4]);
        let _ = module.crypt_message(session, direction, &mut params, b"", b"data", whole);
        module.crypt_message_begin(session, direction, &mut params, b"").expect("a message");
        module.crypt_message_next(session, direction, b"data", Output::Buffer(&mut out)).expect("a part");
    }
    let expected = [
        "C_MessageSignInit - CKM_ECDSA_SHA256 1 Ok",
        "C_SignMessage - CKM_ECDSA_SHA256 1 Ok",
        "C_SignMessage - CKM_ECDSA_SHA256 1 Ok",
        "C_SignMessage - CKM_ECDSA_SHA256 1 Ok",
        "C_SignMessageBegin - CKM_ECDSA_SHA256 1 Ok",
        "C_MessageEncryptInit - CKM_AES_GCM 1 Ok",
        "C_EncryptMessage - CKM_AES_GCM 1 Ok",
        "C_EncryptMessageBegin - CKM_AES_GCM 1 Ok",
        "C_MessageDecryptInit - CKM_AES_GCM 1 Ok",
        "C_DecryptMessage - CKM_AES_GCM 1 AeadDecryptFailed",
        "C_DecryptMessageBegin - CKM_AES_GCM 1 Ok",
    ];
    client.finalize().expect("a module");
    let mut said: Vec<_> = records(&file, DEFAULT).iter().map(said).collect();
    said.retain(|record| record.split(' ').next().expect("a function").contains("Message"));
    assert_eq!(said, expected);
}

/// The attributes that a test asks for.
struct Asked<'a>(&'a [A], Room, Result<(), Error>);

impl token::Attributes for Asked<'_> {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn asked(&self, index: usize) -> (A, Room) {
        (self.0[index], self.1.clone())
    }

    fn tell(&mut self, _: usize, value: Result<AttributeView<'_>, Error>) {
        self.2 = worse(self.2, value.map(drop));
    }

    fn outcome(&self) -> Result<(), Error> {
        self.2
    }
}

/// Reads attributes as the C interface does.
fn read(
    client: &Client,
    session: SessionHandle,
    object: ObjectHandle,
    ids: &[A],
    room: Room,
) -> Result<(), Error> {
    let mut asked = Asked(ids, room, Ok(()));
    client.attributes(session, object, &mut asked)?;
    asked.2
}

#[test]
fn a_read_of_a_secret_value_is_recorded() {
    let (client, file) = audited(DEFAULT);
    let session = user(&client);
    let shown = shown();
    let secret = client.create(session, &aes().and(&shown)).expect("a key");
    let private = client.create(session, &RSA.private.clone().and(&shown)).expect("a key");
    let hidden = client.create(session, &aes().flag(A::SENSITIVE, true)).expect("a key");
    let certificate = client.create(session, &data("public")).expect("data");
    let named = [secret, private].map(|key| unique_id(&client, session, key));
    let read = |object, ids: &[A]| read(&client, session, object, ids, Room::Bytes(4096));
    assert_eq!(read(secret, &[A::LABEL, A::VALUE]), Ok(()));
    assert_eq!(read(private, &[A::PRIME_1, A::MODULUS, A::PRIVATE_EXPONENT]), Ok(()));
    assert_eq!(read(hidden, &[A::VALUE]), Err(Error::AttributeSensitive));
    assert_eq!(read(certificate, &[A::VALUE]), Ok(()));
    // The length is no secret.
    assert_eq!(self::read(&client, session, secret, &[A::VALUE], Room::Length), Ok(()));
    client.finalize().expect("a module");
    let all = records(&file, DEFAULT);
    let reads = all.iter().filter(|record| record["function"] == "C_GetAttributeValue");
    let reads: Vec<_> = reads.map(|record| (&record["objects"][0], &record["attributes"])).collect();
    let attributes = [json!(["CKA_VALUE"]), json!(["CKA_PRIME_1", "CKA_PRIVATE_EXPONENT"])];
    let named = named.map(Value::from);
    assert_eq!(reads, [(&named[0], &attributes[0]), (&named[1], &attributes[1])]);
    let others = all.iter().filter(|record| record["function"] != "C_GetAttributeValue");
    assert!(others.into_iter().all(|record| record.get("attributes").is_none()));
}

#[test]
fn processes_and_restarts_of_a_module_share_a_chain() {
    let (client, file) = audited(DEFAULT);
    let others: Vec<_> = (0..4).map(|_| Client::beside(&client.directory, DEFAULT, &audits(&file))).collect();
    std::thread::scope(|scope| {
        for other in &others {
            scope.spawn(move || {
                let session = other.open();
                for _ in 0..50 {
                    let created = other.create_object(session, &data("a").template());
                    created.expect("an object");
                }
                other.finalize().expect("a module");
            });
        }
    });
    // Without threads the records are written at once, so no `C_Finalize` is needed.
    let single = Module::new();
    single.set_threads(Threads::Forbidden);
    let parameters = client.directory.parameters(DEFAULT, &audits(&file));
    single.initialize(Some(&parameters)).expect("a module");
    let session = single.open_session(client.slot, Access::ReadWrite).expect("a session");
    single.create_object(session, &data("a").template()).expect("an object");
    client.finalize().expect("a module");
    assert_eq!(records(&file, DEFAULT).len(), 1 + 4 * 50 + 1);
}

#[test]
fn a_line_truncated_by_a_crash_is_kept_and_the_log_continues() {
    let (client, file) = audited(DEFAULT);
    let create = |client: &Client| {
        let session = client.open();
        client.create_object(session, &data("a").template()).expect("an object");
        client.finalize().expect("a module");
    };
    create(&client);
    let whole = std::fs::read_to_string(&file).expect("an audit log");
    std::fs::write(&file, format!("{whole}{{\"number\":3,")).expect("a log");
    create(&Client::beside(&client.directory, DEFAULT, &audits(&file)));
    let text = std::fs::read_to_string(&file).expect("an audit log");
    let rest = text.strip_prefix(&whole).and_then(|rest| rest.strip_prefix("{\"number\":3,\n"));
    std::fs::write(&file, whole + rest.expect("a line of its own")).expect("a log");
    assert_eq!(records(&file, DEFAULT).len(), 3);
}

#[test]
fn initialize_refuses_a_log_that_cannot_be_written() {
    let directory = Directory::new();
    let parameters = directory.parameters(DEFAULT, &audits(directory.path()));
    assert_eq!(Module::new().initialize(Some(&parameters)), Err(Error::DeviceError));
}

#[test]
fn a_held_lock_of_the_log_delays_a_call_for_a_limited_time() {
    let (client, file) = audited(DEFAULT);
    let holder = File::open(&file).expect("the log");
    let session = client.open();
    // A thread writes the line about the new token.
    while holder.metadata().expect("the log").len() == 0 {
        std::thread::sleep(Duration::from_millis(10));
    }
    holder.lock().expect("the lock");
    release_later(&holder);
    let start = Instant::now();
    let login = client.module.login(session, User::SecurityOfficer, SO_PIN);
    assert_eq!(login, Ok(()));
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    assert_eq!(client.finalize(), Ok(()));
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    holder.unlock().expect("the lock");
    // The record of the first login is lost, and the chain continues.
    let client = Client::beside(&client.directory, DEFAULT, &audits(&file));
    assert_eq!(client.module.login(client.open(), User::SecurityOfficer, SO_PIN), Ok(()));
    client.finalize().expect("a module");
    let functions: Vec<_> = records(&file, DEFAULT).iter().map(said).collect();
    assert_eq!(functions.len(), 2, "{functions:?}");
}

/// A call that passed the check of its session before `C_Finalize` ends after the thread of the
/// log.
#[test]
fn a_record_after_the_end_of_the_thread_is_written() {
    let directory = Directory::new();
    let file = directory.path().join("audit.jsonl");
    let audit = Audit::open(&file, None, DEFAULT, Threads::Allowed).expect("an audit log");
    audit.note(Record { function: "C_Login", ..Record::default() });
    audit.close();
    audit.note(Record { function: "C_CreateObject", ..Record::default() });
    let functions: Vec<_> = records(&file, DEFAULT).iter().map(|record| record["function"].clone()).collect();
    assert_eq!(functions, ["C_Login", "C_CreateObject"]);
}

/// Reads the messages that a socket has, without waiting.
fn messages(socket: &UnixDatagram) -> Vec<String> {
    socket.set_nonblocking(true).expect("a socket");
    let mut buffer = vec![0; 1 << 16];
    let read =
        || socket.recv(&mut buffer).ok().map(|len| String::from_utf8_lossy(&buffer[..len]).into_owned());
    std::iter::from_fn(read).collect()
}

#[test]
fn the_syslog_socket_gets_each_line_of_the_file() {
    let directory = Directory::new();
    let (file, socket) = (directory.path().join("audit.jsonl"), directory.path().join("syslog"));
    let daemon = UnixDatagram::bind(&socket).expect("a socket");
    let configuration =
        format!(", audit = {{ file = '{}', syslog = '{}' }}", file.display(), socket.display());
    let client = Client::beside(&directory, DEFAULT, &configuration);
    client.init_token(client.slot, SO_PIN, LABEL).expect("a token");
    let session = client.open();
    client.module.login(session, User::SecurityOfficer, SO_PIN).expect("the SO");
    client.finalize().expect("a module");
    let text = std::fs::read_to_string(&file).expect("an audit log");
    let expected: Vec<_> =
        text.lines().map(|line| format!("<85>jeton[{}]: {line}", std::process::id())).collect();
    assert_eq!(expected.len(), 2);
    assert_eq!(messages(&daemon), expected);
}

#[test]
fn syslog_without_a_file_is_refused() {
    let directory = Directory::new();
    let parameters = directory.parameters(DEFAULT, ", audit = { syslog = '/dev/log' }");
    assert_eq!(Functions::new().initialize(Some(&parameters)), Err(Error::GeneralError));
}

/// Calls do not wait for a daemon that does not listen or does not read. It gets lines again when
/// it reads again.
#[test]
fn the_file_is_complete_if_the_syslog_daemon_is_absent_or_stuck() {
    for threads in [Threads::Allowed, Threads::Forbidden] {
        println!("{threads:?}");
        let directory = Directory::new();
        let (file, socket) = (directory.path().join("audit.jsonl"), directory.path().join("syslog"));
        let audit = Audit::open(&file, Some(&socket), DEFAULT, threads).expect("an audit log");
        let note = || audit.note(Record { function: "C_Login", ..Record::default() });
        note();
        let daemon = UnixDatagram::bind(&socket).expect("a socket");
        let start = Instant::now();
        (0..1000).for_each(|_| note());
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
        // Lines are in the file first, and the queue of a socket is short.
        let (mut count, mut taken) = (1001, messages(&daemon));
        while !taken.iter().any(|message| message.contains(&format!("{{\"number\":{count},"))) {
            assert!(start.elapsed() < Duration::from_secs(60), "{count} lines");
            note();
            count += 1;
            std::thread::sleep(Duration::from_millis(10));
            taken.extend(messages(&daemon));
        }
        // A slow thread may send all lines after the daemon reads again.
        assert!(threads == Threads::Allowed || taken.len() < count, "the daemon was never stuck");
        audit.close();
        assert_eq!(records(&file, DEFAULT).len(), count);
    }
}

/// Opens a log without a thread, and writes records of these functions.
fn write(file: &Path, functions: &[&'static str]) {
    let audit = Audit::open(file, None, DEFAULT, Threads::Forbidden).expect("an audit log");
    functions.iter().for_each(|function| audit.note(Record { function, ..Record::default() }));
}

#[test]
fn a_line_is_at_most_16_kib_long() {
    let directory = Directory::new();
    let file = directory.path().join("audit.jsonl");
    let audit = Audit::open(&file, None, DEFAULT, Threads::Forbidden).expect("an audit log");
    let many = |text: &str| vec![text.to_owned(); 2000];
    let long = "\u{1}".repeat(100_000);
    let name = || ObjectName { label: long.clone(), id: long.clone() };
    let records = [
        Record { attributes: many("CKA_PRIVATE_EXPONENT"), ..Record::default() },
        Record { objects: many("a"), names: (0..3).map(|_| name()).collect(), ..Record::default() },
        Record { client: Some(long.clone()), token: Some(long.clone()), ..Record::default() },
        Record { mechanism: Some(long.clone()), result: long.clone(), ..Record::default() },
        Record { function: "C_Login", attributes: many("a")[..10].to_vec(), ..Record::default() },
    ];
    let count = records.len();
    records.into_iter().for_each(|record| audit.note(record));
    let text = std::fs::read_to_string(&file).expect("an audit log");
    assert!(text.split_inclusive('\n').all(|line| line.len() <= 16 * 1024));
    write(&file, &["C_Logout"]);
    let all = self::records(&file, DEFAULT);
    let cut: Vec<_> = all.iter().map(|record| record["cut"] == true).collect();
    assert_eq!(cut, [true, true, true, true, false, false]);
    assert_eq!(all.len(), count + 1);
    // What fits is kept.
    assert_eq!(all[0]["attributes"].as_array().map(Vec::len), Some(512));
    assert_eq!(all[4]["attributes"].as_array().map(Vec::len), Some(10));
}

#[test]
fn an_attribute_that_is_read_many_times_is_recorded_once() {
    let (client, file) = audited(DEFAULT);
    let session = user(&client);
    let secret = client.create(session, &aes().and(&shown())).expect("a key");
    assert_eq!(read(&client, session, secret, &[A::VALUE; 1024], Room::Bytes(4096)), Ok(()));
    client.finalize().expect("a module");
    let all = records(&file, DEFAULT);
    let read = all.iter().find(|record| record["function"] == "C_GetAttributeValue").expect("a record");
    assert_eq!(read["attributes"], json!(["CKA_VALUE"]));
}

/// Appends a line to a log, as a version without a limit of lines wrote it.
fn append_long(file: &Path, number: usize, length: usize) {
    let before = std::fs::read_to_string(file).expect("an audit log");
    let hash = before.trim_end().rsplit_once(",\"hash\":\"").map(|(_, hash)| hash);
    let last = hash.map_or([0; 32], unhex);
    let body = format!("{{\"number\":{number},\"result\":\"{}\"", "a".repeat(length));
    let mut digest = [0; 32];
    let chained = [&last[..], body.as_bytes(), b"}"].concat();
    DEFAULT.digest.hash(Hash::Sha256, &chained, &mut digest).expect("a digest");
    let hash: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    std::fs::write(file, format!("{before}{body},\"hash\":\"{hash}\"}}\n")).expect("a log");
}

#[test]
fn the_chain_continues_after_a_long_line_of_an_older_version() {
    let directory = Directory::new();
    let file = directory.path().join("audit.jsonl");
    write(&file, &["C_Login"]);
    append_long(&file, 2, 24_000);
    write(&file, &["C_Logout"]);
    assert_eq!(records(&file, DEFAULT).len(), 3);
    append_long(&file, 4, 2 << 20);
    let before = std::fs::read(&file).expect("an audit log");
    let opened = Audit::open(&file, None, DEFAULT, Threads::Forbidden);
    assert_eq!(opened.err(), Some(Error::DeviceError));
    assert!(std::fs::read(&file).expect("an audit log") == before);
}

#[test]
fn no_chain_begins_in_a_file_with_another_content() {
    let directory = Directory::new();
    let file = directory.path().join("audit.jsonl");
    let long = "a".repeat(20_000);
    let two_lines = "{\"number\":1,\n{\"number\":1,";
    let greatest = format!("{{\"number\":{},\"hash\":\"00\"}}\n", u64::MAX);
    for content in ["a\n", "a", "{\"number\":2,\"hash\"", "{\"a\":1}\n", &long, two_lines, &greatest] {
        std::fs::write(&file, content).expect("a file");
        let opened = Audit::open(&file, None, DEFAULT, Threads::Forbidden);
        assert_eq!(opened.err(), Some(Error::DeviceError), "{content:.30}");
        assert_eq!(std::fs::read_to_string(&file).expect("a file"), content);
    }
    // A crash cut off the first line. A process that wrote nothing may have ended it.
    for content in ["{\"num", "{\"number\":1,", "{\"number\":12,\"time\":17", "{\"number\":1,\"time\":17\n"] {
        begin(&file, content);
        write(&file, &[]);
        write(&file, &["C_Login", "C_Logout"]);
        let text = std::fs::read_to_string(&file).expect("a log");
        let rest = text.strip_prefix(content.trim_end()).and_then(|rest| rest.strip_prefix('\n'));
        std::fs::write(&file, rest.expect("a line of its own")).expect("a log");
        assert_eq!(records(&file, DEFAULT).len(), 2, "{content}");
    }
}

#[test]
fn a_process_reports_lines_that_it_knows_and_that_are_missing() {
    let directory = Directory::new();
    let file = directory.path().join("audit.jsonl");
    let moved = directory.path().join("moved");
    let harms: [fn(&Path, &Path); 5] = [
        |file, _| std::fs::write(file, "").expect("a file"),
        |file, _| {
            std::fs::write(file, "").expect("a file");
            write(file, &["C_Login"; 5]);
        },
        |file, moved| std::fs::rename(file, moved).expect("a file"),
        |file, _| {
            let text = std::fs::read_to_string(file).expect("a log");
            let first = text.split_inclusive('\n').next().expect("a line");
            std::fs::write(file, first).expect("a file");
        },
        // Another line, after which the file has the same length.
        |file, _| {
            let len = || std::fs::read(file).expect("a log").len();
            let before = len();
            std::fs::write(file, "").expect("a file");
            append_long(file, 1, 0);
            let short = len();
            std::fs::write(file, "").expect("a file");
            append_long(file, 1, before - short);
            assert_eq!(len(), before);
        },
    ];
    for (harm, left) in harms.into_iter().zip([0, 5, 0, 1, 1]) {
        begin(&file, "");
        let audit = Audit::open(&file, None, DEFAULT, Threads::Forbidden).expect("an audit log");
        let note = |function| audit.note(Record { function, ..Record::default() });
        note("C_Login");
        note("C_SetPIN");
        let before = records(&file, DEFAULT);
        harm(&file, &moved);
        note("C_Logout");
        note("C_Login");
        let after = records(&file, DEFAULT);
        assert_eq!(after.len(), left + 3);
        let hash = before[1]["hash"].as_str().expect("a hash");
        if after[0]["number"] == 3 {
            // An empty file continues the chain, also if another process writes to it first.
            assert_eq!(after[0]["previous"], hash);
            assert_eq!(said(&after[0]), "audit - - 0 this file continues after number 2");
        } else {
            let expected = format!("lines are missing, up to number 2 with the hash {hash}");
            assert_eq!(said(&after[left]), format!("audit - - 0 {expected}"));
        }
        assert_eq!(after[left + 1]["function"], "C_Logout");
    }
}

/// As logrotate does it: it renames the log, and may make an empty one.
#[test]
fn the_next_file_continues_the_chain_of_a_log_that_was_moved_away() {
    let directory = Directory::new();
    let file = directory.path().join("audit.jsonl");
    let old = |round| directory.path().join(format!("audit.jsonl.{round}"));
    let running = Audit::open(&file, None, DEFAULT, Threads::Forbidden).expect("an audit log");
    let login = || running.note(Record { function: "C_Login", ..Record::default() });
    login();
    for round in 0..4 {
        std::fs::rename(&file, old(round)).expect("a log");
        if round % 2 == 0 {
            File::create(&file).expect("a file");
        }
        // A process that starts now, and one that has the log open.
        write(&file, &["C_SetPIN"]);
        login();
        if round > 1 {
            write(&file, &["C_SetPIN"]);
        }
        let (before, after) = (records(&old(round), DEFAULT), records(&file, DEFAULT));
        let (last, first) = (before.last().expect("a line"), &after[0]);
        assert_eq!(first["previous"], last["hash"]);
        assert_eq!(first["number"].as_u64(), last["number"].as_u64().map(|number| number + 1));
        let functions: Vec<_> = after[1..].iter().map(|record| &record["function"]).collect();
        let expected = ["C_SetPIN", "C_Login", "C_SetPIN"];
        assert_eq!(functions, &expected[..if round > 1 { 3 } else { 2 }], "{round}");
    }
}

#[test]
fn a_process_continues_a_log_that_it_knows_without_the_file_beside_it() {
    let directory = Directory::new();
    let file = directory.path().join("audit.jsonl");
    let audit = Audit::open(&file, None, DEFAULT, Threads::Forbidden).expect("an audit log");
    let login = || audit.note(Record { function: "C_Login", ..Record::default() });
    login();
    login();
    begin(&file, "");
    login();
    let all = records(&file, DEFAULT);
    assert_eq!((all.len(), &all[0]["number"]), (2, &json!(3)));
    // A file that is not Jeton's is kept, and calls continue.
    std::fs::write(end_of(&file), "a letter").expect("a file");
    login();
    write(&file, &["C_SetPIN"]);
    assert_eq!(records(&file, DEFAULT).len(), 4);
    assert_eq!(std::fs::read_to_string(end_of(&file)).expect("a file"), "a letter");
}

/// A process that is killed between two writes leaves the file beside the log behind the log.
#[test]
fn a_log_with_more_lines_than_the_file_beside_it_knows_goes_on() {
    let directory = Directory::new();
    let file = directory.path().join("audit.jsonl");
    write(&file, &["C_Login"]);
    let end = std::fs::read(end_of(&file)).expect("a file");
    write(&file, &["C_Login", "C_Logout"]);
    std::fs::write(end_of(&file), end).expect("a file");
    write(&file, &["C_SetPIN"]);
    let functions: Vec<_> = records(&file, DEFAULT).iter().map(said).collect();
    assert_eq!(
        functions,
        ["C_Login - - 0 ", "C_Login - - 0 ", "C_Logout - - 0 ", "C_SetPIN - - 0 "]
            .map(|said| said.to_owned())
    );
}

/// The file beside the log has the mode of the log: several users may share both.
#[test]
fn the_file_beside_the_log_has_the_mode_of_the_log() {
    let directory = Directory::new();
    let file = directory.path().join("audit.jsonl");
    write(&file, &["C_Login"]);
    let mode = || std::fs::metadata(end_of(&file)).expect("a file").permissions().mode() & 0o777;
    assert_eq!(mode(), 0o600);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o660)).expect("a mode");
    write(&file, &["C_Login"]);
    assert_eq!(mode(), 0o660);
}

/// Processes that wait while another one renames the log write to the new file.
#[test]
fn many_processes_continue_one_chain_while_the_log_is_moved_away() {
    let directory = Directory::new();
    let file = directory.path().join("audit.jsonl");
    let writers: Vec<_> =
        (0..4).map(|_| Audit::open(&file, None, DEFAULT, Threads::Allowed).expect("an audit log")).collect();
    let moved = |round: usize| directory.path().join(format!("audit.{round}"));
    std::thread::scope(|scope| {
        for writer in &writers {
            scope.spawn(move || {
                for _ in 0..300 {
                    writer.note(Record { function: "C_Login", ..Record::default() });
                    std::thread::yield_now();
                }
                writer.close();
            });
        }
        for round in 0..20 {
            std::thread::sleep(Duration::from_millis(2));
            let _ = std::fs::rename(&file, moved(round));
        }
    });
    write(&file, &[]);
    let (mut count, mut last, mut logins) = (0, Value::Null, 0);
    for path in (0..20).map(moved).chain([file]).filter(|path| path.exists()) {
        let all = records(&path, DEFAULT);
        let Some(first) = all.first() else { continue };
        assert_eq!(first.get("previous").unwrap_or(&Value::Null), &last, "{path:?}");
        assert_eq!(first["number"], count + 1);
        logins += all.iter().filter(|record| record["function"] == "C_Login").count();
        count += all.len() as u64;
        last = all[all.len() - 1]["hash"].clone();
    }
    assert_eq!(logins, 4 * 300);
}

/// As `copytruncate` of logrotate, which takes no lock.
#[test]
fn lines_that_are_lost_while_a_process_writes_are_reported() {
    let directory = Directory::new();
    let file = directory.path().join("audit.jsonl");
    for round in 0..2000 {
        begin(&file, "");
        write(&file, &["C_Login", "C_Logout"]);
        let audit = Audit::open(&file, None, DEFAULT, Threads::Forbidden).expect("an audit log");
        let log = File::options().write(true).open(&file).expect("a log");
        let start = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                start.wait();
                audit.note(Record { function: "C_SetPIN", ..Record::default() });
            });
            start.wait();
            // Each round hits another step of the write.
            (0..4 * round).for_each(|_| std::hint::spin_loop());
            log.set_len(0).expect("an empty file");
        });
        write(&file, &["C_Logout"]);
        let text = std::fs::read_to_string(&file).expect("a log");
        let is_whole = text.starts_with("{\"number\":1,");
        let is_said = text.contains("lines are missing, up to number") || text.contains("\"previous\":");
        assert!(is_whole || is_said, "{text}");
    }
}

/// After a power cut a file may have its new length without its new content.
#[test]
fn nuls_at_the_end_of_a_log_are_cut_and_reported() {
    let directory = Directory::new();
    let file = directory.path().join("audit.jsonl");
    for nuls in [1, 4096, 16 * 1024, (1 << 20) + 1, 5 << 20] {
        let missing = |record: &Value| {
            let expected = format!("audit - - 0 {nuls} NUL bytes at the end of the file were cut");
            assert_eq!(said(record), expected);
        };
        let grow = || {
            let log = File::options().write(true).open(&file).expect("a log");
            log.set_len(log.metadata().expect("a log").len() + nuls).expect("a longer file");
        };
        begin(&file, "");
        write(&file, &["C_Login"]);
        grow();
        write(&file, &["C_Logout"]);
        let all = records(&file, DEFAULT);
        assert_eq!(all.len(), 3);
        missing(&all[1]);
        // A process that has the log open. What it wrote is still there.
        let audit = Audit::open(&file, None, DEFAULT, Threads::Forbidden).expect("an audit log");
        grow();
        audit.note(Record { function: "C_Login", ..Record::default() });
        let all = records(&file, DEFAULT);
        assert_eq!(all.len(), 5);
        missing(&all[3]);
        // No line reached the disk.
        begin(&file, "");
        grow();
        write(&file, &[]);
        let all = records(&file, DEFAULT);
        assert_eq!(all.len(), 1);
        missing(&all[0]);
        // Half a line did.
        begin(&file, "{\"number\":1,\"ti");
        grow();
        write(&file, &["C_Login"]);
        let text = std::fs::read_to_string(&file).expect("a log");
        let rest = text.strip_prefix("{\"number\":1,\"ti\n").expect("a line of its own");
        std::fs::write(&file, rest).expect("a log");
        missing(&records(&file, DEFAULT)[0]);
    }
    // Too many to look at.
    std::fs::write(&file, "").expect("a file");
    File::options().write(true).open(&file).and_then(|log| log.set_len(1 << 40)).expect("a sparse file");
    let opened = Audit::open(&file, None, DEFAULT, Threads::Forbidden);
    assert_eq!(opened.err(), Some(Error::DeviceError));
}

/// The numbers go on where no file keeps the lines.
#[test]
fn a_log_on_a_device_goes_on_in_the_syslog() {
    let directory = Directory::new();
    let socket = directory.path().join("syslog");
    let daemon = UnixDatagram::bind(&socket).expect("a socket");
    let null = Path::new("/dev/null");
    let audit = Audit::open(null, Some(&socket), DEFAULT, Threads::Forbidden).expect("an audit log");
    (0..3).for_each(|_| audit.note(Record { function: "C_Login", ..Record::default() }));
    let taken = messages(&daemon);
    let expected = (1..=3).map(|number| format!("{{\"number\":{number},"));
    assert!(taken.iter().zip(expected).all(|(line, number)| line.contains(&number)), "{taken:?}");
    assert_eq!(taken.len(), 3);
}
