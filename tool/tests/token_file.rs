//! The commands for the files of Jeton's tokens, as a user runs them.

mod common;

use common::*;

const SEALING: &str = "[store]\nsealing-key = ";

/// Makes a sealing key in a file, and returns the configuration with it, and its source.
fn new_key(tool: &Tool, name: &str) -> (String, String) {
    tool.ok(&["sealing-key", "new", name]);
    assert_eq!(tool.read(name).len(), 32);
    let source = format!("file:{}", tool.file(name));
    (format!("{SEALING}\"{source}\"\n"), source)
}

#[test]
fn token_info_shows_a_token_without_a_pin() {
    let Some(tool) = Tool::new() else { return };
    let text = succeed(&mut tool.without_pins("token-info --token mine"));
    assert!(text.contains("Label:     mine") && text.contains("8 KiB"), "{text}");
    refused(&mut tool.without_pins("token-info --token other"), "no such token");
}

#[test]
fn a_short_pin_causes_a_warning() {
    let Some(tool) = Tool::new() else { return };
    let text = tool.ok("init-token --label short --so-pin 1234 --pin 12345678");
    assert_eq!(text.matches("has fewer than 8 characters").count(), 1, "{text}");
}

#[test]
fn rekey_needs_the_right_pins_and_leaves_a_valid_token_when_it_is_killed() {
    let Some(tool) = Tool::new() else { return };
    assert!(tool.ok("rekey").contains("has a new key"));
    refused(tool.command("rekey").env("JETON_PIN", "wrong"), "the PIN is wrong");
    for milliseconds in (0..60).step_by(3) {
        let mut child = tool.command("rekey").stdout(Stdio::null()).spawn().expect("the tool");
        sleep(Duration::from_millis(milliseconds));
        // The process may already have ended.
        let _ = child.kill();
        child.wait().expect("the tool");
    }
    // `rekey` opens both PIN records, and verifies every record and the summary.
    tool.ok("rekey");
}

#[test]
fn a_sealing_key_is_set_rotated_and_removed() {
    let Some(tool) = Tool::new() else { return };
    let ((one, old), (two, new)) = (new_key(&tool, "one"), new_key(&tool, "two"));
    refused(&mut tool.command("sealing-key set"), "names no sealing key");
    tool.configure(&one);
    tool.ok("sealing-key set");
    let text = tool.ok("token-info");
    assert_eq!(text.matches("sealing key").count(), 2, "{text}");

    // Without its sealing key no PIN opens the token, and no wrong PIN is counted.
    tool.configure("");
    refused(&mut tool.command("rekey"), "without its sealing key");
    says(tool.ok("token-info"), "0 of 10 wrong PINs");

    tool.configure(&two);
    tool.ok(&["sealing-key", "rotate", "--old", &old]);
    tool.ok("rekey");
    tool.configure("");
    tool.ok(&["sealing-key", "remove", "--old", &new]);
    tool.ok("rekey");
}

#[test]
fn a_sealing_key_comes_from_a_credential_of_systemd_and_its_file_is_never_overwritten() {
    let Some(tool) = Tool::new() else { return };
    new_key(&tool, "jeton.key");
    tool.fails(4, "sealing-key new jeton.key");
    tool.configure(&format!("{SEALING}\"credential:jeton.key\"\n"));
    refused(&mut tool.command("sealing-key set"), "CREDENTIALS_DIRECTORY");
    for line in ["sealing-key set", "rekey"] {
        succeed(tool.command(line).env("CREDENTIALS_DIRECTORY", tool.path()));
    }
}
