//! Records of ceremonies: what they have, what never reaches them, and each way to change one.

mod common;

use common::*;
use jeton_tool::audit;
use jeton_tool::ceremony::{self, Event, NAMESPACE, Recorder, Signature};

/// Makes a token and the SSH keys of two people. Returns `None` if a program is missing.
fn setup() -> Option<Tool> {
    let tool = Tool::new().filter(|_| has("ssh-keygen"))?;
    tool.shell(
        "ssh-keygen -q -t ed25519 -N '' -C alice -f alice; ssh-keygen -q -t ecdsa -b 384 -N '' -C bob -f bob
         ssh-keygen -q -t ed25519 -N '' -C mallory -f mallory",
    );
    Some(tool)
}

const BEGIN: [&str; 9] = [
    "ceremony",
    "begin",
    "record",
    "--purpose",
    "The root CA of 2026",
    "--present",
    "alice.pub",
    "--present",
    "bob.pub",
];

impl Tool {
    /// Records a command, with a file.
    fn runs(&self, document: &str, line: &str) -> String {
        let document = if document.is_empty() { String::new() } else { format!("--document {document}") };
        self.ok(&format!("ceremony run record {document} -- {line}"))
    }

    fn sign(&self, name: &str, record: &str) {
        self.shell(&format!("ssh-keygen -q -Y sign -n {NAMESPACE} -f {name} <{record} >{name}.sig 2>log"));
    }

    /// Returns the faults of a record that both have signed.
    fn faults(&self, record: &[u8]) -> Vec<String> {
        let signatures = ["alice.sig", "bob.sig"];
        let signatures = signatures.map(|name| Signature { name: name.to_owned(), bytes: self.read(name) });
        ceremony::check(record, &signatures).expect("a record").faults
    }

    /// Makes a record with a CA that both sign.
    fn ceremony(&self) -> Vec<u8> {
        self.ok(&BEGIN);
        self.runs("", "key generate --type ec:p384 --label root");
        let sign = "cert self-sign --label root --subject CN=Root --ca --days 30 --import --out root.pem";
        self.runs("root.pem", sign);
        self.runs("", "ca init --label root");
        self.runs("root.crl", "crl --label root --days 30 --out root.crl");
        self.ok(&["ceremony", "note", "record", "The file goes into the safe."]);
        self.ok("ceremony end record");
        self.sign("alice", "record");
        self.sign("bob", "record");
        self.read("record")
    }
}

const VERIFY: &str = "ceremony verify record alice.sig bob.sig";

#[test]
fn a_ceremony_is_recorded_signed_and_verified() {
    let Some(tool) = setup() else { return };
    let record = tool.ceremony();
    let text = tool.ok(VERIFY);
    says(&text, "The root CA of 2026: 4 commands");
    for part in [
        "certificate",
        "CN=Root: signed by itself",
        "CRL of CN=Root",
        "signed by alice SHA256:",
        "signed by bob SHA256:",
    ] {
        says(&text, part);
    }
    says(&text, "\nvalid\n");
    let json = tool.json(&format!("{VERIFY} --json"));
    assert_eq!(
        (json["signed"].as_array().map(Vec::len), json["faults"].as_array().map(Vec::len)),
        (Some(2), Some(0))
    );
    tool.ok(&format!(
        "{VERIFY} --present bob.pub --present alice.pub --document root.pem --document root.crl"
    ));
    says(tool.fails(1, &format!("{VERIFY} --present mallory.pub")), "was not present");
    says(tool.fails(1, &format!("{VERIFY} --document alice.pub")), "alice.pub is not a file of the record");
    // OpenSSH verifies the same signature.
    tool.shell(&format!(
        "echo \"alice $(cat alice.pub)\" >signers
         ssh-keygen -Y verify -f signers -I alice -n {NAMESPACE} -s alice.sig <record"
    ));
    let shown = tool.ok("ceremony show record");
    for part in [
        "begins: The root CA of 2026",
        "runs: jeton cert self-sign --label root",
        "exits with 0",
        "notes: The file",
    ] {
        says(&shown, part);
    }
    // A reader of the record can check its certificate without this tool.
    let certificate = String::from_utf8(tool.read("root.pem")).expect("PEM");
    let lines = ceremony::lines(&record).expect("lines");
    let documents = lines.iter().filter_map(|line| match &line.event {
        Event::Exit { files, .. } => files.first(),
        _ => None,
    });
    assert_eq!(documents.map(|file| file.path.as_str()).collect::<Vec<_>>(), ["root.pem", "root.crl"]);
    assert!(lines.iter().any(|line| matches!(&line.event, Event::Exit { files, .. }
        if files.iter().any(|file| file.pem == certificate))));
    assert_eq!(fs::metadata(tool.file("record")).expect("a file").permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_record_that_has_ended_or_is_damaged_takes_no_line() {
    let Some(tool) = setup() else { return };
    tool.ok(&BEGIN);
    says(tool.fails(4, &BEGIN), "record exists");
    let held = Recorder::open(Path::new(&tool.file("record"))).expect("a record");
    refused(&mut tool.command("ceremony note record text"), "another command of this ceremony has not ended");
    drop(held);
    // The status of the command is that of the tool, and the record has its error.
    says(tool.fails(3, "ceremony run record -- cert export --label none"), "jeton:");
    let shown = tool.ok("ceremony show record");
    says(&shown, "exits with 3");
    says(&shown, "    jeton: ");
    let open = tool.read("record");
    let cut = &open[..open.len() - 9];
    tool.write("record", cut);
    says(tool.fails(8, "ceremony note record text"), "line 3 is not a record");
    says(tool.fails(8, "ceremony show record"), "line 3 is damaged");
    tool.write("record", open);
    tool.ok("ceremony end record");
    says(tool.fails(7, "ceremony note record text"), "this ceremony has ended");
    says(tool.fails(7, "ceremony run record -- random 8"), "this ceremony has ended");
    tool.write("empty", "");
    says(tool.fails(8, "ceremony note empty text"), "no record of a ceremony");
    says(tool.fails(3, "ceremony note absent text"), "absent");
}

#[test]
fn an_interrupted_command_has_its_end_in_the_record() {
    let Some(tool) = setup() else { return };
    tool.ok(&BEGIN);
    let program = env!("CARGO_BIN_EXE_jeton");
    let script = format!(
        "set -m; mkfifo input; exec 3<>input; {program} ceremony run record -- hash - <input & run=$!
         for i in $(seq 200); do grep -q '\"command\"' record && break; sleep 0.1; done
         for i in $(seq 50); do kill -INT -- -$run 2>log || break; sleep 0.3; done
         kill -KILL -- -$run 2>log; wait $run || echo \"ended $?\""
    );
    let mut shell = Command::new("bash");
    shell.env("JETON_DIR", tool.file("tokens")).env("JETON_CONF", tool.file("conf"));
    let text = succeed(shell.args(["-c", &script]).current_dir(tool.path()).stdin(Stdio::null()));
    says(&text, "ended");
    tool.ok(&["ceremony", "note", "record", "a mistake"]);
    tool.ok("ceremony end record");
    says(tool.ok("ceremony show record"), "was killed");
    tool.sign("alice", "record");
    tool.sign("bob", "record");
    tool.ok(VERIFY);
}

#[test]
fn secrets_do_not_reach_the_record() {
    let Some(tool) = setup() else { return };
    tool.ok(&BEGIN);
    // The value of a PIN.
    for line in [
        "pin unblock --so-pin 12345678",
        "pin unblock --so-pin=12345678",
        "key list --pin 87654321",
        "backup create b --passphrase a-long-passphrase",
        "object list pkcs11:token=mine?pin-value=87654321",
        "pin change --new-pin 11112222",
        "key import k --file-pin 1234",
    ] {
        says(tool.fails(7, &format!("ceremony run record -- {line}")), "the record would have the secret of");
    }
    says(tool.fails(2, "ceremony run record -- ceremony note other text"), "no other ceremony");
    assert_eq!(
        ceremony::lines(&tool.read("record")).expect("lines").len(),
        1,
        "a refused command is not recorded"
    );
    // A secret result on standard output.
    tool.ok("sealing-key new seal --shares 2/2");
    for line in [
        "shares combine seal.1 seal.2",
        "shares combine seal.1 seal.2 --out /dev/stdout",
        "random 8",
        "random 8 --out /dev/stderr",
        "random 8 --json",
    ] {
        let said = tool.fails(7, &format!("ceremony run record -- {line}"));
        says(said, "the record of the ceremony would have this result");
    }
    tool.runs("", "random 8 --out random");
    // Documents with secrets.
    tool.ok("backup new-key identity");
    tool.shell("openssl genpkey -algorithm ed25519 -out key.pem");
    for secret in ["seal.1", "identity", "key.pem", "alice"] {
        let line = format!("ceremony run record --document {secret} -- token list");
        says(tool.fails(7, &line), "a secret has no place in a record");
    }
    // A whole life of an SO PIN in shares.
    tool.runs("", "shares new-pin so --shares 2/2");
    tool.runs("", "token init --label other --so-pin-share so.1 --so-pin-share so.2");
    tool.runs("", "pin unblock --token other --so-pin-share so.1 --so-pin-share so.2 --new-pin-file random");
    let record = String::from_utf8(tool.read("record")).expect("text");
    let pin = tool.ok("shares combine so.1 so.2");
    let hashes: Vec<_> = ["seal.1", "identity", "key.pem", "random", "so.1"]
        .map(|name| ceremony::hash_file(Path::new(&tool.file(name))).expect("a file"))
        .into();
    let shares = ["so.1", "so.2", "seal.1"].map(|name| {
        let file = String::from_utf8(tool.read(name)).expect("text");
        file.lines().find(|line| line.len() > 40 && !line.starts_with('#')).expect("letters").to_owned()
    });
    let random = String::from_utf8(tool.read("random")).expect("digits");
    let secrets = [pin.trim(), random.trim(), PIN, SO_PIN, PASSPHRASE];
    for secret in
        secrets.into_iter().chain(hashes.iter().map(String::as_str)).chain(shares.iter().map(String::as_str))
    {
        assert!(!secret.is_empty() && !record.contains(secret), "{secret}");
    }
}

#[test]
fn each_change_of_a_signed_record_is_found() {
    let Some(tool) = setup() else { return };
    let record = tool.ceremony();
    assert_eq!(tool.faults(&record), [""; 0]);
    let text = String::from_utf8(record.clone()).expect("text");
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    assert_eq!(lines.len(), 11);
    let has = |record: &str, fault: &str| {
        let faults = tool.faults(record.as_bytes());
        assert!(faults.iter().any(|one| one.contains(fault)), "no {fault:?} in {faults:#?}");
        let signed = |name| {
            faults.iter().any(|one| one.starts_with(name) && one.contains("has not signed this record"))
        };
        let is_unnamed = faults.iter().any(|one| one.contains("names no person"));
        assert!(signed("alice") && signed("bob") || is_unnamed, "{faults:#?}");
    };
    for at in 1..lines.len() {
        let cut = lines[..at].concat();
        has(&cut, "the record has no end: it was cut");
        let mut removed = lines.clone();
        removed.remove(at);
        if at + 1 < lines.len() {
            has(&removed.concat(), &format!("line {} does not follow", at + 1));
            let mut moved = lines.clone();
            moved.swap(at, at + 1);
            has(&moved.concat(), &format!("line {} does not follow", at + 1));
        }
        let mut repeated = lines.clone();
        repeated.insert(at, lines[at]);
        has(&repeated.concat(), &format!("line {} does not follow", at + 2));
        let place = lines[at].find("\"time\":\"2").expect("a time") + 10;
        let mut edited = lines[at].to_owned();
        edited.replace_range(place..=place, "9");
        let mut all = lines.clone();
        all[at] = &edited;
        has(&all.concat(), &format!("line {} does not follow from the line before, or was changed", at + 1));
    }
    has(&text[..text.len() - 1], "line 11 is not a whole line");
    has(&text[..text.len() - 20], "line 11 is not a record");
    has(&lines[1..].concat(), "line 1 does not follow");
    has(&format!("{text}\n"), "line 12 is not a record");
    has("", "the record has no first line");
    // Spaces mean nothing in JSON, but this tool writes none.
    has(&text.replacen("{\"number\"", "{ \"number\"", 1), "line 1 is not a whole line");
    // Another record behind this one.
    has(&format!("{text}{text}"), "line 12 does not follow");
    // With all hashes made again only the order and the signatures show it.
    let objects: Vec<_> =
        lines.iter().map(|line| audit::object(line.trim_end()).expect("an object")).collect();
    let chained = |objects: &[String]| {
        let mut last: Option<String> = None;
        let mut record = String::new();
        for (object, number) in objects.iter().zip(1..) {
            let (_, rest) = object.split_once(',').expect("a field");
            let object = format!("{{\"number\":{number},{rest}");
            let (line, hash) = audit::line(last.as_deref(), &object).expect("an object");
            record += &line;
            last = Some(hash);
        }
        record
    };
    assert_eq!(chained(&objects), text);
    let with = |change: &dyn Fn(&mut Vec<String>)| {
        let mut changed = objects.clone();
        change(&mut changed);
        chained(&changed)
    };
    let edited = with(&|all| all[3] = all[3].replace("CN=Root", "CN=Roof"));
    has(&edited, "alice SHA256:");
    has(&edited, "signed another text, or the record was changed later");
    has(&with(&|all| all.extend(objects.clone())), "line 12 is after the end of the ceremony");
    has(&with(&|all| all.extend(objects.clone())), "line 12 begins another ceremony");
    has(&with(&|all| all.insert(5, objects[0].clone())), "line 6 begins another ceremony");
    has(&with(&|all| drop(all.remove(2))), "the command of line 2 has not exited: it was killed");
    has(&with(&|all| drop(all.remove(1))), "line 2 has the result of no command");
    has(&with(&|all| drop(all.remove(9))), "signed another text");
    let fewer = with(&|all| all[0] = all[0].replace("ecdsa-sha2-nistp384", "ecdsa-sha2-nistp999"));
    assert!(tool.faults(fewer.as_bytes()).iter().any(|one| one.contains("not a public key")));
    let none = with(&|all| {
        all[0] = all[0].split("\"present\":").next().expect("a field").to_owned() + "\"present\":[]}}"
    });
    assert!(tool.faults(none.as_bytes()).iter().any(|one| one.contains("names no person")));
    // A certificate whose signature was changed, and one whose PEM is damaged.
    let last = "\\n-----END CERTIFICATE";
    let place = text.find(last).expect("a certificate") - 6;
    let old = &text[place..place + 2];
    let forged = with(&|all| {
        let at = all[4].find(last).expect("a certificate") - 6;
        all[4].replace_range(at..at + 2, if old == "AA" { "BB" } else { "AA" });
    });
    has(&forged, "its signature is wrong");
    has(
        &with(&|all| all[4] = all[4].replacen("CERTIFICATE-----\\nMII", "CERTIFICATE-----\\nMIA", 1)),
        "is malformed",
    );
}

#[test]
fn a_signature_of_another_state_key_or_namespace_is_named() {
    let Some(tool) = setup() else { return };
    tool.ok(&BEGIN);
    tool.ok(&["ceremony", "note", "record", "one\n\u{1b}[2Jvalid"]);
    assert!(!tool.ok("ceremony show record").contains(['\u{1b}']));
    assert_eq!(tool.ok("ceremony show record").lines().count(), 2);
    tool.sign("bob", "record");
    tool.ok(&["ceremony", "note", "record", "two"]);
    tool.ok("ceremony end record");
    tool.sign("alice", "record");
    let fails = |line: &str, fault: &str| {
        let text = tool.fails(1, line);
        says(&text, fault);
        says(text, "not valid");
    };
    fails(VERIFY, "signed the record up to line 2 only");
    fails("ceremony verify record alice.sig", "wrong: bob SHA256:");
    fails("ceremony verify record", "has not signed this record");
    tool.sign("bob", "record");
    tool.ok(VERIFY);
    tool.sign("mallory", "record");
    fails(&format!("{VERIFY} mallory.sig"), "is not of those present");
    fails(&format!("{VERIFY} record"), "not a signature of `ssh-keygen -Y sign`");
    tool.write("text", "another text");
    tool.sign("bob", "text");
    fails(VERIFY, "signed another text");
    tool.shell("ssh-keygen -q -Y sign -n file -f bob <record >bob.sig 2>log");
    fails(VERIFY, "it is for the namespace \"file\"; sign with `-n jeton-ceremony`");
}

#[test]
fn keys_that_cannot_sign_a_record_are_refused_at_its_beginning() {
    let Some(tool) = setup() else { return };
    tool.shell("ssh-keygen -q -t rsa -b 2048 -N '' -f rsa");
    let begin = |keys: &str| format!("ceremony begin record --purpose test {keys}");
    says(tool.fails(8, &begin("--present rsa.pub")), "use Ed25519 or ECDSA");
    says(tool.fails(8, &begin("--present alice")), "not a public key of OpenSSH");
    says(tool.fails(2, &begin("--present alice.pub --present alice.pub")), "is present twice");
    says(tool.fails(2, &begin("")), "--present");
    assert!(!tool.files(".").contains("record"));
}
