//! The commands for the files of Jeton's tokens, run as a user runs them.

mod common;

use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use common::{Place, jeton, peer, run, succeed};
use jeton_driver::peers::Known;

/// A directory with a token, and files with its PINs. `None` where the module is not built.
fn token() -> Option<Place> {
    peer(Known::Jeton)?;
    let place = Place::new();
    fs::write(place.file("so"), "the officer's\n").expect("a file");
    fs::write(place.file("user"), "the user's\n").expect("a file");
    configure(&place, "");
    let mut command = tool(&place, &["init-token", "--label", "mine"]);
    succeed(command.args(["--so-pin-file", &place.file("so"), "--pin-file", &place.file("user")]));
    Some(place)
}

/// Writes the configuration; PINs that cost no time.
fn configure(place: &Place, more: &str) {
    let text = format!("[pin]\nmemory-kib = 8\npasses = 1\n{more}");
    fs::write(place.file("conf"), text).expect("a file");
}

fn tool(place: &Place, arguments: &[&str]) -> Command {
    let mut command = jeton(arguments);
    command.env("JETON_DIR", place.file("tokens")).env("JETON_CONF", place.file("conf"));
    command
}

/// The same with both PINs.
fn with_pins(place: &Place, arguments: &[&str]) -> Command {
    let mut command = tool(place, arguments);
    command.args(["--so-pin-file", &place.file("so"), "--pin-file", &place.file("user")]);
    command
}

fn new_key(place: &Place, name: &str) -> String {
    let path = place.file(name);
    succeed(&mut tool(place, &["sealing-key", "new", &path]));
    assert_eq!(fs::read(&path).expect("the key").len(), 32);
    format!("file:{path}")
}

#[test]
fn token_info_shows_a_token_without_a_pin() {
    let Some(place) = token() else { return };
    let text = succeed(&mut tool(&place, &["token-info", "--token", "mine"]));
    assert!(text.contains("Label:     mine") && text.contains("8 KiB"), "{text}");
    let (code, text) = run(&mut tool(&place, &["token-info", "--token", "other"]));
    assert!(code != 0 && text.contains("no such token"), "{text}");
}

#[test]
fn a_short_pin_is_warned_of() {
    let Some(place) = token() else { return };
    let mut command =
        tool(&place, &["init-token", "--label", "short", "--so-pin", "1234", "--pin", "12345678"]);
    let text = succeed(&mut command);
    assert_eq!(text.matches("has fewer than 8 characters").count(), 1, "{text}");
}

#[test]
fn rekey_needs_the_right_pins() {
    let Some(place) = token() else { return };
    let text = succeed(&mut with_pins(&place, &["rekey"]));
    assert!(text.contains("has a new key"), "{text}");
    fs::write(place.file("user"), "wrong").expect("a file");
    let (code, text) = run(&mut with_pins(&place, &["rekey"]));
    assert!(code != 0 && text.contains("the PIN is wrong"), "{text}");
}

#[test]
fn a_rekey_that_is_killed_leaves_a_sound_token() {
    let Some(place) = token() else { return };
    for milliseconds in (0..60).step_by(3) {
        let mut child = with_pins(&place, &["rekey"]).spawn().expect("the tool");
        sleep(Duration::from_millis(milliseconds));
        // It may have ended by itself.
        let _ = child.kill();
        child.wait().expect("the tool");
    }
    // It opens both PIN records, and verifies every record and the summary.
    succeed(&mut with_pins(&place, &["rekey"]));
}

#[test]
fn a_sealing_key_is_set_rotated_and_removed() {
    let Some(place) = token() else { return };
    let (one, two) = (new_key(&place, "one"), new_key(&place, "two"));
    let (code, text) = run(&mut with_pins(&place, &["sealing-key", "set"]));
    assert!(code != 0 && text.contains("names no sealing key"), "{text}");
    let configured = |source: &str| configure(&place, &format!("[store]\nsealing-key = \"{source}\"\n"));
    configured(&one);
    succeed(&mut with_pins(&place, &["sealing-key", "set"]));
    let text = succeed(&mut tool(&place, &["token-info"]));
    assert_eq!(text.matches("sealing key").count(), 2, "{text}");

    // Without its key no PIN opens the token, and the line says which key is wanted.
    configure(&place, "");
    let (code, text) = run(&mut with_pins(&place, &["rekey"]));
    assert!(code != 0 && text.contains("without its sealing key"), "{text}");
    let text = succeed(&mut tool(&place, &["token-info"]));
    assert!(text.contains("0 of 10 wrong PINs"), "{text}");

    configured(&two);
    succeed(&mut with_pins(&place, &["sealing-key", "rotate", "--old", &one]));
    succeed(&mut with_pins(&place, &["rekey"]));
    configure(&place, "");
    succeed(&mut with_pins(&place, &["sealing-key", "remove", "--old", &two]));
    succeed(&mut with_pins(&place, &["rekey"]));
}

#[test]
fn a_sealing_key_comes_from_a_credential_of_systemd() {
    let Some(place) = token() else { return };
    new_key(&place, "jeton.key");
    configure(&place, "[store]\nsealing-key = \"credential:jeton.key\"\n");
    let (code, text) = run(&mut with_pins(&place, &["sealing-key", "set"]));
    assert!(code != 0 && text.contains("CREDENTIALS_DIRECTORY"), "{text}");
    let credentials = place.path().to_owned();
    succeed(with_pins(&place, &["sealing-key", "set"]).env("CREDENTIALS_DIRECTORY", &credentials));
    succeed(with_pins(&place, &["rekey"]).env("CREDENTIALS_DIRECTORY", &credentials));
}

#[test]
fn a_sealing_key_file_is_never_overwritten() {
    let Some(place) = token() else { return };
    new_key(&place, "key");
    let (code, _) = run(&mut tool(&place, &["sealing-key", "new", &place.file("key")]));
    assert_ne!(code, 0);
}
