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
fn a_conversion_that_is_killed_leaves_a_token_of_one_format() {
    let Some(tool) = Tool::new() else { return };
    let text = tool.ok("backup new-key identity");
    let recipient = text.trim().rsplit(' ').next().expect("a recipient").to_owned();
    let convert = |format: &str, backup: &str| {
        tool.command(&["rekey", "--format", format, "--backup", backup, "--recipient", &recipient])
    };
    says(tool.fails(2, "rekey --format fips"), "--backup");
    succeed(&mut convert("fips", "before"));
    says(tool.ok("token-info"), "PBKDF2");
    for pin in ["JETON_SO_PIN", "JETON_PIN"] {
        refused(convert("standard", "wrong").env(pin, "wrong"), "the PIN is wrong");
        says(tool.ok("token-info"), "1 of 10 wrong PINs");
    }
    assert!(!Path::new(&tool.file("wrong")).exists());
    // The backup has the format of the time before.
    tool.ok("backup verify before --identity identity");
    refused(&mut convert("standard", "before"), "exists");
    let began = Instant::now();
    succeed(&mut convert("standard", "again"));
    let (longest, mut found) = (began.elapsed(), [0; 2]);
    let rounds = std::env::var("JETON_REKEY_ROUNDS").map_or(6, |rounds| rounds.parse().expect("a number"));
    for round in 0..rounds {
        let before = tool.ok("token-info").contains("PBKDF2");
        let name = format!("backup-{round}");
        let mut child = convert(if before { "standard" } else { "fips" }, &name);
        let mut child = child.stdout(Stdio::null()).spawn().expect("the tool");
        // Late, because the backup and the PINs take most of the time.
        sleep(longest.mul_f64(0.5 + 0.6 * f64::from(round) / f64::from(rounds)));
        // The process may already have ended.
        let _ = child.kill();
        child.wait().expect("the tool");
        tool.ok("rekey");
        found[usize::from(tool.ok("token-info").contains("PBKDF2") != before)] += 1;
    }
    println!("{} conversions were killed before the commit, {} after it", found[0], found[1]);
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
