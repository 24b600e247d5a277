//! The commands for the files of Jeton's tokens, as a user runs them.

mod common;

use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use common::{Scratch, jeton, peer, run, succeed};
use jeton_peers::Known;

/// Creates a directory with a token, and files with its PINs. `None` if the module is not built.
fn token() -> Option<Scratch> {
    peer(Known::Jeton)?;
    let scratch = Scratch::new();
    fs::write(scratch.file("so"), "the officer's\n").expect("a file");
    fs::write(scratch.file("user"), "the user's\n").expect("a file");
    configure(&scratch, "");
    let mut command = tool(&scratch, &["init-token", "--label", "mine"]);
    succeed(command.args(["--so-pin-file", &scratch.file("so"), "--pin-file", &scratch.file("user")]));
    Some(scratch)
}

/// Writes the configuration, with the cheapest PIN key derivation.
fn configure(scratch: &Scratch, more: &str) {
    let text = format!("[pin]\nmemory-kib = 8\npasses = 1\n{more}");
    fs::write(scratch.file("conf"), text).expect("a file");
}

fn tool(scratch: &Scratch, arguments: &[&str]) -> Command {
    let mut command = jeton(arguments);
    command.env("JETON_DIR", scratch.file("tokens")).env("JETON_CONF", scratch.file("conf"));
    command
}

/// Returns a command of the tool with both PINs.
fn with_pins(scratch: &Scratch, arguments: &[&str]) -> Command {
    let mut command = tool(scratch, arguments);
    command.args(["--so-pin-file", &scratch.file("so"), "--pin-file", &scratch.file("user")]);
    command
}

fn new_key(scratch: &Scratch, name: &str) -> String {
    let path = scratch.file(name);
    succeed(&mut tool(scratch, &["sealing-key", "new", &path]));
    assert_eq!(fs::read(&path).expect("the key").len(), 32);
    format!("file:{path}")
}

#[test]
fn token_info_shows_a_token_without_a_pin() {
    let Some(scratch) = token() else { return };
    let text = succeed(&mut tool(&scratch, &["token-info", "--token", "mine"]));
    assert!(text.contains("Label:     mine") && text.contains("8 KiB"), "{text}");
    let (code, text) = run(&mut tool(&scratch, &["token-info", "--token", "other"]));
    assert!(code != 0 && text.contains("no such token"), "{text}");
}

#[test]
fn a_short_pin_causes_a_warning() {
    let Some(scratch) = token() else { return };
    let mut command =
        tool(&scratch, &["init-token", "--label", "short", "--so-pin", "1234", "--pin", "12345678"]);
    let text = succeed(&mut command);
    assert_eq!(text.matches("has fewer than 8 characters").count(), 1, "{text}");
}

#[test]
fn rekey_needs_the_right_pins() {
    let Some(scratch) = token() else { return };
    let text = succeed(&mut with_pins(&scratch, &["rekey"]));
    assert!(text.contains("has a new key"), "{text}");
    fs::write(scratch.file("user"), "wrong").expect("a file");
    let (code, text) = run(&mut with_pins(&scratch, &["rekey"]));
    assert!(code != 0 && text.contains("the PIN is wrong"), "{text}");
}

#[test]
fn a_killed_rekey_leaves_a_valid_token() {
    let Some(scratch) = token() else { return };
    for milliseconds in (0..60).step_by(3) {
        let mut child = with_pins(&scratch, &["rekey"]).spawn().expect("the tool");
        sleep(Duration::from_millis(milliseconds));
        // The process may already have ended.
        let _ = child.kill();
        child.wait().expect("the tool");
    }
    // `rekey` opens both PIN records, and verifies every record and the summary.
    succeed(&mut with_pins(&scratch, &["rekey"]));
}

#[test]
fn a_sealing_key_is_set_rotated_and_removed() {
    let Some(scratch) = token() else { return };
    let (one, two) = (new_key(&scratch, "one"), new_key(&scratch, "two"));
    let (code, text) = run(&mut with_pins(&scratch, &["sealing-key", "set"]));
    assert!(code != 0 && text.contains("names no sealing key"), "{text}");
    let configured = |source: &str| configure(&scratch, &format!("[store]\nsealing-key = \"{source}\"\n"));
    configured(&one);
    succeed(&mut with_pins(&scratch, &["sealing-key", "set"]));
    let text = succeed(&mut tool(&scratch, &["token-info"]));
    assert_eq!(text.matches("sealing key").count(), 2, "{text}");

    // Without its sealing key no PIN opens the token, and no wrong PIN is counted.
    configure(&scratch, "");
    let (code, text) = run(&mut with_pins(&scratch, &["rekey"]));
    assert!(code != 0 && text.contains("without its sealing key"), "{text}");
    let text = succeed(&mut tool(&scratch, &["token-info"]));
    assert!(text.contains("0 of 10 wrong PINs"), "{text}");

    configured(&two);
    succeed(&mut with_pins(&scratch, &["sealing-key", "rotate", "--old", &one]));
    succeed(&mut with_pins(&scratch, &["rekey"]));
    configure(&scratch, "");
    succeed(&mut with_pins(&scratch, &["sealing-key", "remove", "--old", &two]));
    succeed(&mut with_pins(&scratch, &["rekey"]));
}

#[test]
fn a_sealing_key_comes_from_a_credential_of_systemd() {
    let Some(scratch) = token() else { return };
    new_key(&scratch, "jeton.key");
    configure(&scratch, "[store]\nsealing-key = \"credential:jeton.key\"\n");
    let (code, text) = run(&mut with_pins(&scratch, &["sealing-key", "set"]));
    assert!(code != 0 && text.contains("CREDENTIALS_DIRECTORY"), "{text}");
    let credentials = scratch.path().to_owned();
    succeed(with_pins(&scratch, &["sealing-key", "set"]).env("CREDENTIALS_DIRECTORY", &credentials));
    succeed(with_pins(&scratch, &["rekey"]).env("CREDENTIALS_DIRECTORY", &credentials));
}

#[test]
fn a_sealing_key_file_is_never_overwritten() {
    let Some(scratch) = token() else { return };
    new_key(&scratch, "key");
    let (code, _) = run(&mut tool(&scratch, &["sealing-key", "new", &scratch.file("key")]));
    assert_ne!(code, 0);
}
