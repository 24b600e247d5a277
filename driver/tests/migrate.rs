//! `jeton migrate`: stores that SoftHSMv2 made, as a user migrates them.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use common::migration::{Migration, PIN, copy, fingerprint};
use common::{Scratch, has, jeton, peer, run, succeed};
use jeton_peers::Known;

/// The key pairs of the store: the type for pkcs11-tool, and more options.
const PAIRS: [(&str, &[&str]); 9] = [
    ("rsa:1024", &[]),
    ("rsa:2048", &["--always-auth"]),
    ("rsa:2048", &["--extractable"]),
    ("rsa:3072", &[]),
    ("rsa:4096", &[]),
    ("EC:prime256v1", &[]),
    ("EC:secp384r1", &[]),
    ("EC:secp521r1", &[]),
    ("EC:edwards25519", &[]),
];

/// The objects of the store: two for each pair, two secret keys, two data objects, a certificate.
const OBJECTS: usize = 2 * PAIRS.len() + 5;

/// Returns a store that SoftHSMv2 made; the tests use copies of it. `None` if a program is absent.
fn store() -> Option<&'static Path> {
    static STORE: OnceLock<Option<Scratch>> = OnceLock::new();
    let store = STORE.get_or_init(|| {
        peer(Known::Jeton)?;
        let library = peer(Known::SoftHsm2)?;
        let there =
            has("softhsm2-util", "--version") && has("pkcs11-tool", "--version") && has("openssl", "version");
        there.then(|| make_store(&library))
    });
    store.as_ref().map(Scratch::path)
}

fn make_store(library: &Path) -> Scratch {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path().join("tokens")).expect("a directory");
    let text = format!("directories.tokendir = {}\nobjectstore.backend = file\n", scratch.file("tokens"));
    fs::write(scratch.file("softhsm2.conf"), text).expect("a file");
    let mut command = Command::new("softhsm2-util");
    command.args(["--init-token", "--free", "--label", "old", "--so-pin", "12345678", "--pin", PIN]);
    succeed(command.env("SOFTHSM2_CONF", scratch.file("softhsm2.conf")));
    let tool = |arguments: &[&str]| {
        succeed(old_tool(scratch.path(), library).args(arguments));
    };
    for (index, (kind, more)) in PAIRS.iter().enumerate() {
        let (id, label) = (format!("{:02x}", index + 1), format!("pair {index}"));
        tool(&[&["--keypairgen", "--key-type", kind, "--id", &id, "--label", &label], *more].concat());
    }
    tool(&["--keygen", "--key-type", "AES:32", "--id", "30", "--label", "aes"]);
    tool(&["--keygen", "--key-type", "GENERIC:32", "--id", "31", "--label", "generic"]);
    fs::write(scratch.file("data"), "some data").expect("a file");
    let data = scratch.file("data");
    tool(&["--write-object", &data, "--type", "data", "--label", "public", "--application-label", "a"]);
    tool(&["--write-object", &data, "--type", "data", "--label", "private", "--private"]);
    let certificate = scratch.file("certificate");
    let mut command = Command::new("openssl");
    command.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", &scratch.file("key")]);
    succeed(command.args(["-out", &certificate, "-outform", "DER", "-subj", "/CN=old", "-days", "9"]));
    tool(&["--write-object", &certificate, "--type", "cert", "--id", "01", "--label", "certificate"]);
    scratch
}

/// Returns a copy of the store.
fn migration() -> Option<Migration> {
    Some(Migration::of(&store()?.join("tokens")))
}

/// Returns pkcs11-tool for the store in this directory, logged in.
fn old_tool(store: &Path, library: &Path) -> Command {
    let mut command = Command::new("pkcs11-tool");
    command.env("SOFTHSM2_CONF", store.join("softhsm2.conf")).arg("--module").arg(library);
    command.args(["--login", "--pin", PIN]);
    command
}

/// Returns the objects that pkcs11-tool lists, without the lines that a migration changes.
fn listing(command: &mut Command) -> Vec<String> {
    let text = succeed(command.arg("--list-objects"));
    let mut objects: Vec<String> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with("Using slot")) {
        let kept = ["label:", "ID:", "Usage:", "VALUE", "EC_POINT", "subject:", "application:"];
        if !line.starts_with(' ') {
            // Data objects have their handle in this line.
            objects.push(line.trim_end_matches(char::is_numeric).to_owned());
        } else if let Some(object) = objects.last_mut() {
            let line = line.trim();
            if let Some(access) = line.strip_prefix("Access:") {
                let words = access.split(',').map(str::trim);
                let kept =
                    words.filter(|word| ["sensitive", "extractable", "always authenticate"].contains(word));
                *object += &format!("\n{}", kept.collect::<Vec<_>>().join(" "));
            } else if kept.iter().any(|start| line.starts_with(start)) && !line.starts_with("Unique") {
                *object += &format!("\n{line}");
            }
        }
    }
    objects.sort();
    objects
}

#[test]
fn every_object_is_migrated_once_with_its_attributes_and_each_key_is_proved() {
    let Some(migration) = migration() else { return };
    let before = fingerprint(Path::new(&migration.old()));
    let text = succeed(&mut migration.command(&[]));
    assert!(
        text.contains(&format!(
            "{OBJECTS} of {OBJECTS} objects are migrated; 9 of 9 private keys are proved"
        )),
        "{text}"
    );
    assert_eq!(fingerprint(Path::new(&migration.old())), before);
    let text = succeed(&mut migration.command(&[]));
    assert!(text.contains(&format!("all {OBJECTS} objects already")), "{text}");
    assert_eq!(migration.listed().iter().filter(|name| name.ends_with(".jeton")).count(), 1);

    let old =
        listing(&mut old_tool(store().expect("the store"), &Known::SoftHsm2.library().expect("the module")));
    let mut command = Command::new("pkcs11-tool");
    command.arg("--module").arg(Known::Jeton.library().expect("the module")).args(["--login", "--pin", PIN]);
    command.env("JETON_DIR", migration.tokens()).env("JETON_CONF", migration.scratch.file("conf"));
    let new = listing(&mut command);
    assert_eq!(new.len(), old.len());
    for (new, old) in new.iter().zip(&old) {
        assert_eq!(new, old);
    }
}

#[test]
fn a_dry_run_lists_every_object_and_writes_nothing() {
    let Some(migration) = migration() else { return };
    let text = succeed(&mut migration.command(&["--dry-run"]));
    assert_eq!(text.matches("\nmigrated      ").count(), OBJECTS, "{text}");
    assert_eq!(text.matches("proved by a signature, both ways through the old module").count(), 9, "{text}");
    assert_eq!(migration.listed(), Vec::<String>::new());
}

#[test]
fn keys_are_proved_without_the_old_module() {
    let Some(migration) = migration() else { return };
    let text = succeed(&mut migration.command(&["--module", "none"]));
    assert!(text.contains("9 of 9 private keys are proved"), "{text}");
}

#[test]
fn the_pin_may_come_from_a_file_or_a_descriptor() {
    let Some(migration) = migration() else { return };
    let pin = migration.scratch.file("pin");
    fs::write(&pin, format!("{PIN}\n")).expect("a file");
    succeed(migration.command(&["--dry-run", "--pin-file", &pin]).env_remove("JETON_PIN"));
    let mut command = migration.command(&["--dry-run", "--pin-fd", "0"]);
    succeed(command.env_remove("JETON_PIN").stdin(fs::File::open(&pin).expect("the file")));
    let new = migration.scratch.file("new");
    fs::write(&new, "another PIN\n").expect("a file");
    succeed(&mut migration.command(&["--new-pin-file", &new]));
    let (code, text) = run(&mut migration.command(&[]));
    assert!(code == 1 && text.contains("the PIN does not open it"), "{text}");
    let text = succeed(&mut migration.command(&["--new-pin-file", &new]));
    assert!(text.contains("objects already"), "{text}");
}

#[test]
fn a_wrong_pin_is_refused() {
    let Some(migration) = migration() else { return };
    let pin = migration.scratch.file("pin");
    fs::write(&pin, "wrong").expect("a file");
    migration.refused(&["--pin-file", &pin], "the PIN is wrong");
}

#[test]
fn a_pin_that_jeton_refuses_leaves_no_token() {
    let Some(migration) = migration() else { return };
    let pin = migration.scratch.file("pin");
    fs::write(&pin, "123").expect("a file");
    migration.refused(&["--new-pin-file", &pin], "the token takes 4 to 255");
}

#[test]
fn wrong_usage_ends_with_exit_status_2() {
    let Some(migration) = migration() else { return };
    for arguments in
        [&["--token", "other"][..], &["--unknown"], &["--label", "a label of more than thirty-two bytes"]]
    {
        let (code, text) = run(&mut migration.command(arguments));
        assert_eq!(code, 2, "{text}");
    }
    let (code, _) = run(&mut jeton(["migrate"]));
    assert_eq!(code, 2);
    // With two tokens, the command must name one of them.
    copy(&migration.old_token(), &migration.scratch.path().join("old").join("second"));
    let (code, text) = run(&mut migration.command(&[]));
    assert!(code == 2 && text.contains("--token or --serial"), "{text}");
}

#[test]
fn a_directory_without_a_store_is_refused() {
    let Some(migration) = migration() else { return };
    fs::remove_dir_all(migration.old()).expect("a directory");
    migration_of_nothing(&migration, "No such file");
    fs::create_dir(migration.old()).expect("a directory");
    migration.refused(&[], "no token here");
}

fn migration_of_nothing(migration: &Migration, text: &str) {
    let (code, output) = run(&mut migration.command(&[]));
    assert!(code == 1 && output.contains(text), "{output}");
}

#[test]
fn a_truncated_object_is_named_and_nothing_is_written() {
    let Some(migration) = migration() else { return };
    let object = migration.old_object();
    let content = fs::read(&object).expect("a file");
    fs::write(&object, &content[..content.len() - 3]).expect("a file");
    migration.refused(&[], &format!("{}: damaged", object.display()));
}

#[test]
fn an_altered_private_key_is_refused() {
    let Some(migration) = migration() else { return };
    // CKA_PRIME_1 (0x124) of an RSA key: a flipped bit in its ciphertext.
    let mut altered = 0;
    for entry in fs::read_dir(migration.old_token()).expect("a directory") {
        let path = entry.expect("an entry").path();
        let mut content = fs::read(&path).expect("a file");
        let wanted = [&0x124_u64.to_be_bytes()[..], &3_u64.to_be_bytes()].concat();
        let found = content.windows(wanted.len()).position(|window| window == wanted);
        if let Some(at) = found.filter(|_| altered == 0) {
            content[at + 24 + 40] ^= 1;
            fs::write(&path, content).expect("a file");
            altered += 1;
        }
    }
    assert_eq!(altered, 1);
    migration.refused(&[], "not migrated  private key, RSA");
}

/// Adds an object to the old token as SoftHSMv2 stores it. Public objects are not encrypted.
fn add_object(migration: &Migration, name: &str, numbers: &[(u64, u64)], value: &[u8]) {
    let number = |number: u64| number.to_be_bytes();
    let mut content = number(3).to_vec();
    for (kind, value) in numbers {
        content.extend([number(*kind), number(2), number(*value)].concat());
    }
    content.extend([number(0x11), number(3), number(value.len() as u64)].concat());
    content.extend(value);
    fs::write(migration.old_token().join(name), content).expect("a file");
}

#[test]
fn objects_that_jeton_does_not_support_are_refused_or_left_out() {
    let Some(migration) = migration() else { return };
    // A public GOST key.
    add_object(&migration, "gost.object", &[(0, 2), (0x100, 0x30)], b"value");
    migration.refused(&[], "Jeton has no GOST keys");
    // SoftHSMv2 stores a Triple DES key without a value if it cannot generate the value.
    add_object(&migration, "empty.object", &[(0, 4), (0x100, 0x15)], b"");
    migration.refused(&[], "not migrated  secret key, Triple DES: it has no value");
    let text = succeed(&mut migration.command(&["--partial"]));
    assert!(text.contains(&format!("{OBJECTS} of {} objects are migrated", OBJECTS + 2)), "{text}");
}

/// Adds a DSA key pair to the old token, and returns the path of its public key. softhsm2-util
/// creates both objects.
fn add_dsa_pair(migration: &Migration) -> String {
    let file = |name| migration.scratch.file(name);
    let openssl = |arguments: &[&str]| succeed(Command::new("openssl").args(arguments));
    openssl(&["dsaparam", "-out", &file("group"), "2048"]);
    openssl(&["gendsa", "-out", &file("key"), &file("group")]);
    openssl(&["pkcs8", "-topk8", "-nocrypt", "-in", &file("key"), "-out", &file("pkcs8")]);
    openssl(&["pkey", "-in", &file("key"), "-pubout", "-out", &file("public")]);
    let text = format!("directories.tokendir = {}\nobjectstore.backend = file\n", migration.old());
    fs::write(file("softhsm2.conf"), text).expect("a file");
    let mut command = Command::new("softhsm2-util");
    command.args([
        "--import",
        &file("pkcs8"),
        "--token",
        "old",
        "--pin",
        PIN,
        "--label",
        "dsa",
        "--id",
        "5d",
    ]);
    succeed(command.env("SOFTHSM2_CONF", file("softhsm2.conf")));
    file("public")
}

/// Returns the DER of a DSA signature r || s.
fn der_of(signature: &[u8]) -> Vec<u8> {
    let integer = |half: &[u8]| {
        let zeros = half.iter().take_while(|byte| **byte == 0).count();
        let digits = [&[0][..], &half[zeros..]].concat();
        let digits =
            if digits.get(1).is_some_and(|first| first & 0x80 != 0) { &digits[..] } else { &digits[1..] };
        [&[2, digits.len() as u8][..], digits].concat()
    };
    let (r, s) = signature.split_at(signature.len() / 2);
    let both = [integer(r), integer(s)].concat();
    [&[0x30, both.len() as u8][..], &both].concat()
}

#[test]
fn a_dsa_key_pair_is_migrated_where_legacy_is_enabled_and_openssl_verifies_its_signature() {
    let Some(migration) = migration() else { return };
    let public = add_dsa_pair(&migration);
    migration.refused(&[], "DSA 2048, label \"dsa\", ID 5d: DSA is obsolete, and off");
    migration.refused(&[], "set `legacy = true` in `[mechanisms]`");
    let partial = succeed(&mut migration.command(&["--partial", "--dry-run"]));
    assert!(partial.contains(&format!("{OBJECTS} of {} objects are migrated", OBJECTS + 2)), "{partial}");

    let conf = "[pin]\nmemory-kib = 8\npasses = 1\n[mechanisms]\nlegacy = true\n";
    fs::write(migration.scratch.file("conf"), conf).expect("a file");
    let text = succeed(&mut migration.command(&["--dry-run"]));
    let proved = "private key, DSA 2048, label \"dsa\", ID 5d, proved by a signature, both ways through the old module";
    assert!(text.contains(proved), "{text}");
    let text = succeed(&mut migration.command(&[]));
    let all = format!("{0} of {0} objects are migrated; 10 of 10 private keys are proved", OBJECTS + 2);
    assert!(text.contains(&all), "{text}");

    let file = |name| migration.scratch.file(name);
    fs::write(file("message"), "a message").expect("a file");
    let mut command = Command::new("pkcs11-tool");
    command.arg("--module").arg(Known::Jeton.library().expect("the module")).args(["--login", "--pin", PIN]);
    command.args(["--sign", "--mechanism", "DSA-SHA256", "--id", "5d", "--input-file", &file("message")]);
    command.env("JETON_DIR", migration.tokens()).env("JETON_CONF", file("conf"));
    succeed(command.args(["--output-file", &file("signature")]));
    let signature = fs::read(file("signature")).expect("a file");
    // OpenSSL makes subprimes of 224 bits for this size.
    assert_eq!(signature.len(), 56);
    fs::write(file("der"), der_of(&signature)).expect("a file");
    let mut command = Command::new("openssl");
    command.args(["dgst", "-sha256", "-verify", &public, "-signature", &file("der"), &file("message")]);
    assert!(succeed(&mut command).contains("Verified OK"));
}

#[test]
fn a_dsa_key_that_does_not_fit_its_public_key_is_refused() {
    let Some(migration) = migration() else { return };
    add_dsa_pair(&migration);
    let conf = "[pin]\nmemory-kib = 8\npasses = 1\n[mechanisms]\nlegacy = true\n";
    fs::write(migration.scratch.file("conf"), conf).expect("a file");
    // CKA_SUBPRIME (0x131) is in both keys, CKA_EXTRACTABLE (0x162) in the private key alone. A
    // flipped bit in the ciphertext of its CKA_VALUE (0x11) changes the value.
    let word = |number: u64| number.to_be_bytes();
    let mut altered = 0;
    for entry in fs::read_dir(migration.old_token()).expect("a directory") {
        let path = entry.expect("an entry").path();
        let mut content = fs::read(&path).expect("a file");
        let find = |kind: u64, form: u64| {
            let wanted = [word(kind), word(form)].concat();
            content.windows(wanted.len()).position(|window| window == wanted)
        };
        if let (Some(_), Some(_), Some(at)) = (find(0x131, 3), find(0x162, 1), find(0x11, 3)) {
            content[at + 24 + 10] ^= 1;
            fs::write(&path, content).expect("a file");
            altered += 1;
        }
    }
    assert_eq!(altered, 1);
    let refused = "not migrated  private key, DSA 2048, label \"dsa\", ID 5d: a signature made in Jeton does not verify";
    migration.refused(&[], refused);
}

#[test]
fn a_triple_des_key_is_migrated() {
    let Some(migration) = migration() else { return };
    let key: Vec<u8> = [[0x01_u8; 8], [0x23; 8], [0x45; 8]].concat();
    add_object(&migration, "des3.object", &[(0, 4), (0x100, 0x15)], &key);
    let text = succeed(&mut migration.command(&[]));
    assert!(text.contains(&format!("{0} of {0} objects are migrated", OBJECTS + 1)), "{text}");
}

#[test]
fn a_migration_to_the_label_of_a_token_with_other_objects_is_refused() {
    let Some(migration) = migration() else { return };
    fs::remove_file(migration.old_object()).expect("a file");
    succeed(&mut migration.command(&[]));
    copy(&store().expect("the store").join("tokens"), Path::new(&migration.old()));
    let (code, text) = run(&mut migration.command(&[]));
    assert!(code == 1 && text.contains(&format!("with {} of the {OBJECTS} objects", OBJECTS - 1)), "{text}");
    succeed(&mut migration.command(&["--label", "another"]));
}

#[test]
fn a_thousand_objects_are_migrated() {
    let Some(migration) = migration() else { return };
    let token = migration.old_token();
    let objects: Vec<_> =
        fs::read_dir(&token).expect("a directory").map(|entry| entry.expect("an entry").path()).collect();
    let objects =
        objects.iter().filter(|path| path.extension().is_some_and(|extension| extension == "object"));
    let objects: Vec<_> = objects.filter(|path| !path.ends_with("token.object")).collect();
    // One key encrypts all files of a token, so a copy of a file is another object.
    for index in 0..1000 - OBJECTS {
        fs::copy(objects[index % OBJECTS], token.join(format!("copy-{index}.object"))).expect("a file");
    }
    let text = succeed(&mut migration.command(&["--module", "none"]));
    assert!(text.contains("1000 of 1000 objects are migrated"), "{text}");
    let text = succeed(&mut migration.command(&["--module", "none"]));
    assert!(text.contains("all 1000 objects already"), "{text}");
}

#[test]
fn a_migration_that_is_killed_leaves_no_half_token() {
    let Some(migration) = migration() else { return };
    migration.leaves_no_half_token_when_it_is_killed(&[], OBJECTS);
}

#[test]
fn a_full_disk_leaves_no_half_token() {
    let Some(migration) = migration() else { return };
    migration.leaves_no_half_token_on_a_full_disk("400k", &["--module", "none"]);
    // The copy of the store for the old module does not fit either.
    migration.leaves_no_half_token_on_a_full_disk("16k", &[]);
}

/// Reads every truncation of an object file and of `token.object`, and both with flipped bits: a
/// panic fails the test.
#[test]
fn readers_survive_damaged_files() {
    let Some(migration) = migration() else { return };
    let read = || {
        jeton_migrate::tokens(Path::new(&migration.old())).and_then(|tokens| tokens[0].read(PIN.as_bytes()))
    };
    // Only one object, so that a round is fast.
    let (object, token) = (migration.old_object(), migration.old_token().join("token.object"));
    for entry in fs::read_dir(migration.old_token()).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path != object && path != token {
            fs::remove_file(path).expect("a file");
        }
    }
    assert_eq!(read().expect("a sound store").len(), 1);
    for path in [object, token] {
        let content = fs::read(&path).expect("a file");
        for length in 0..content.len() {
            fs::write(&path, &content[..length]).expect("a file");
            let _ = read();
        }
        for at in 0..content.len() {
            let mut flipped = content.clone();
            flipped[at] ^= 1 << (at % 8);
            fs::write(&path, &flipped).expect("a file");
            let _ = read();
        }
        fs::write(&path, &content).expect("a file");
    }
}
