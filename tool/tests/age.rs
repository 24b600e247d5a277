//! The encryption of backups: the published vectors of the format, and files of the program `age`.
//!
//! The vectors are those of C2SP for X25519 and passphrases. Numbers in a file are lengths of runs
//! of zeros.

use std::fs::{self, File};
use std::io::{BufReader, Read, Write};
use std::path::Path;
use std::process::Command;

use aws_lc_rs::digest::{SHA256, digest};
use base64ct::{Base64, Encoding};
use jeton_programs::{Scratch, has, succeed};
use jeton_tool::Error;
use jeton_tool::backup::{Identity, Keys, Protection, Recipient, new_identity, read_keys};
use serde_json::Value;
use zeroize::Zeroizing;

/// The lengths of content around the ends of chunks, and one of more than 256 chunks.
const LENGTHS: [usize; 7] = [0, 1, 65_535, 65_536, 65_537, 131_072, 17 << 20];

#[test]
fn published_vectors_have_their_results() {
    let all: Value = serde_json::from_str(include_str!("age/vectors.json")).expect("JSON");
    let vectors = all["vectors"].as_array().expect("vectors");
    assert_eq!(vectors.len(), 92);
    for vector in vectors {
        let (name, expected) = (text(&vector["name"]), text(&vector["expect"]));
        let found = decrypt(&keys(vector), &file(vector));
        let (content, error) = match &found {
            Ok((content, None)) => (content, "success"),
            Ok((content, Some(error))) => {
                assert!(error.to_string().contains("altered or cut"), "{name}: {error}");
                (content, "payload failure")
            }
            Err(error) => {
                let message = error.to_string();
                let results = [
                    ("not a file of age", "header failure"),
                    ("blocks of scrypt", "header failure"),
                    ("no passphrase; give", "no match"),
                    ("other keys", "no match"),
                    ("passphrase is wrong", "no match"),
                    ("header of the file was altered", "HMAC failure"),
                ];
                let result = results.iter().find(|(part, _)| message.contains(part));
                (&Vec::new(), result.unwrap_or_else(|| panic!("{name}: {message}")).1)
            }
        };
        assert_eq!(error, expected, "{name}");
        // The hash of a payload with an error covers a last chunk that is not marked as the last
        // one. The tool does not release such a chunk.
        if error == "success" {
            let hash = text(&vector["payload"]);
            let found = digest(&SHA256, content);
            let found: String = found.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(found, hash, "{name}");
        }
    }
}

fn keys(vector: &Value) -> Keys {
    if let Some(passphrase) = vector["passphrase"].as_array() {
        return Keys::Passphrase(Zeroizing::new(text(&passphrase[0]).to_owned()));
    }
    let all = vector["identity"].as_array().into_iter().flatten();
    Keys::Identities(all.map(|key| text(key).parse().expect("an identity")).collect())
}

fn file(vector: &Value) -> Vec<u8> {
    let parts = vector["file"].as_array().expect("parts").iter();
    let bytes = parts.map(|part| match part.as_u64() {
        Some(zeros) => vec![0; zeros as usize],
        None => Base64::decode_vec(text(part)).expect("base64"),
    });
    bytes.collect::<Vec<_>>().concat()
}

fn text(value: &Value) -> &str {
    value.as_str().expect("text")
}

/// Returns the content up to its first error.
fn decrypt(keys: &Keys, file: &[u8]) -> Result<(Vec<u8>, Option<std::io::Error>), Error> {
    let mut content = Vec::new();
    let error = keys.decrypt(Path::new("vector"), file)?.read_to_end(&mut content).err();
    Ok((content, error))
}

#[test]
fn the_program_age_reads_our_files_and_we_read_its_files() {
    if !has("age") {
        return;
    }
    let scratch = Scratch::new();
    let [identity, theirs, ours, plain] =
        ["identity", "theirs", "ours", "plain"].map(|name| scratch.file(name));
    let recipient = new_identity(Path::new(&identity)).expect("a new file");
    let protection = Protection::Recipients(vec![recipient.parse::<Recipient>().expect("a recipient")]);
    let keys = Keys::Identities(read_keys(Path::new(&identity)).expect("an identity"));
    for len in LENGTHS {
        let content: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
        let mut file = Vec::new();
        let write = |plain: &mut dyn Write| plain.write_all(&content).map_err(Error::io("memory"));
        protection.encrypt(&mut file, write).expect("a file");
        fs::write(&ours, file).expect("a file");
        let output = Command::new("age").args(["-d", "-i", &identity, &ours]).output().expect("age");
        assert!(output.status.success() && output.stdout == content, "{len}");
        fs::write(&plain, &content).expect("a file");
        succeed(Command::new("age").args(["-r", &recipient, "-o", &theirs, &plain]));
        let input = BufReader::new(File::open(&theirs).expect("a file"));
        let mut found = Vec::new();
        keys.decrypt(Path::new(&theirs), input).expect("a header").read_to_end(&mut found).expect("content");
        assert!(found == content, "{len}");
    }
}

#[test]
fn age_keygen_derives_the_same_recipient() {
    if !has("age-keygen") {
        return;
    }
    let scratch = Scratch::new();
    let file = scratch.file("identity");
    for _ in 0..20 {
        let recipient = new_identity(Path::new(&file)).expect("a new file");
        assert_eq!(succeed(Command::new("age-keygen").args(["-y", &file])).trim(), recipient);
        fs::remove_file(&file).expect("a file");
    }
}

#[test]
fn malformed_keys_are_refused() {
    let identity = "AGE-SECRET-KEY-1EGTZVFFV20835NWYV6270LXYVK2VKNX2MMDKWYKLMGR48UAWX40Q2P2LM0";
    let recipient = identity.parse::<Identity>().expect("an identity").public.to_string();
    assert!(identity.to_ascii_lowercase().parse::<Identity>().is_ok());
    let mixed = format!("AGE{}", &identity.to_ascii_lowercase()[3..]);
    let (short, long) = (&identity[..identity.len() - 1], format!("{identity}Q"));
    let altered = identity.replace("EGTZ", "EGTY");
    for text in [&mixed, short, &long, &altered, &recipient, "", "AGE-SECRET-KEY-1"] {
        assert!(text.parse::<Identity>().is_err(), "{text}");
    }
    assert!(recipient.parse::<Recipient>().is_ok());
    assert!(identity.parse::<Recipient>().is_err());
}
