//! Keys with the usages that `--usage` names, and what strangers do: labels that control a
//! terminal, closed pipes, wrong options.

mod common;

use common::*;

#[test]
fn a_label_does_not_control_the_terminal_and_a_pipe_has_no_colour() {
    let Some(tool) = Tool::new() else { return };
    tool.ok(&["key", "generate", "--type", "ed25519", "--label", "\x1b[31mred\x07"]);
    let text = tool.ok("object list");
    assert!(!text.contains('\x1b') && !text.contains('\x07'), "{text:?}");
    assert!(text.contains(r"\u{1b}[31mred\u{7}"), "{text}");
    let text = tool.fails(3, &["object", "list", "--token", "\x1b[2J"]);
    assert!(!text.contains('\x1b'), "{text:?}");
    // A terminal may obey U+009B, which JSON allows in a text.
    tool.ok(&["object", "set", "--class", "public", "--set-label", "\u{9b}31m"]);
    let text = tool.ok(&["key", "export", "--label", "\u{9b}31m", "--out", "-"]);
    assert!(text.starts_with("-----BEGIN PUBLIC KEY"), "{text}");
    assert!(tool.ok("object --class public --json list").contains(r#""label": "\u009b31m""#));
    // The dates of a certificate may be any text.
    tool.ok("cert self-sign --subject CN=x --format der --out x.der");
    let mut der = tool.read("x.der");
    let date = der.windows(17).position(|all| all.starts_with(b"\x17\x0d") && all.ends_with(b"\x17\x0d"));
    der[date.expect("two dates") + 17] = 0x1b;
    tool.write("x.der", der);
    tool.ok("cert import x.der");
    assert!(!tool.ok("cert list").contains('\x1b'));
}

#[test]
fn a_closed_pipe_changes_neither_the_status_nor_the_messages() {
    let Some(tool) = Tool::new() else { return };
    for (verb, status) in [
        ("--help", 0),
        ("mechanisms", 0),
        ("token list", 0),
        ("config show --json", 0),
        ("random 100000 --out -", 0),
        ("object list --token none", 3),
    ] {
        let jeton = format!("JETON_DIR={} {} {verb}", tool.file("tokens"), env!("CARGO_BIN_EXE_jeton"));
        // `true` ends at once, and `sleep` closes the pipe before the tool starts.
        for wait in ["", "sleep 0.1; "] {
            let text = tool.shell(&format!(
                "{{ {wait}{jeton} 2>err && echo 0 >status || echo $? >status; }} | true; cat status err"
            ));
            assert_eq!(text.lines().next(), Some(&*status.to_string()), "{verb}: {text}");
            assert!(!text.contains("panicked") && !text.contains("Broken pipe"), "{text}");
        }
        let text = tool.shell(&format!("({jeton}; true) 2>&1 >/dev/full | cat"));
        assert!(!text.contains("panicked"), "{text}");
    }
}

#[test]
fn wrong_usage_exits_with_2_and_a_module_that_cannot_be_loaded_with_10() {
    let Some(tool) = Tool::new() else { return };
    tool.fails(2, "key generate");
    assert!(tool.fails(2, "key generate --type dsa --label x").contains("known are"));
    tool.fails(2, "object list --id xyz");
    tool.fails(2, "object list --uri http://a");
    says(tool.fails(10, "object list --module /nonexistent.so"), "No such file");
    let text = tool.fails(10, "object list --module /etc/passwd");
    assert!(text.contains("invalid ELF header") || text.contains("file too short"), "{text}");
    says(
        fails(2, &mut tool.without_pins("key generate --type aes --label x")),
        "no terminal to ask for the user PIN of the token \"mine\"",
    );
}

#[test]
fn generated_and_imported_keys_have_one_role_under_the_strict_policy() {
    let Some(tool) = Tool::empty() else { return };
    tool.configure("[policy]\nname = 'strict'\n");
    tool.ok("token init --label mine");
    let roles = |class: &str| -> Vec<String> {
        let rows = tool.rows(&format!("object list --login --json --class {class}"));
        rows.iter().map(|row| row["usage"].to_string()).collect()
    };
    for kind in
        ["rsa:2048", "ec:p256", "ed25519", "x25519", "ml-dsa-44", "ml-kem-512", "aes:256", "generic:32"]
    {
        tool.ok(&format!("key generate --type {kind} --label {kind}"));
    }
    says(tool.fails(7, "key generate --type rsa:2048 --usage sign,decrypt --label x"), "a policy refuses");
    tool.write("secret", "0123456789abcdef0123456789abcdef");
    for kind in ["aes", "generic"] {
        tool.ok(&format!("key import secret --type {kind} --label imported-{kind}"));
    }
    let mut pairs = 6;
    if has("openssl") {
        tool.shell(
            "openssl genrsa -out rsa.pem 2048 && openssl ecparam -name prime256v1 -genkey -noout -out ec.pem",
        );
        for file in ["rsa.pem", "ec.pem"] {
            tool.ok(&format!("key import {file} --label {file}"));
        }
        pairs = 8;
    }
    let (private, secret) = (roles("private"), roles("secret-key"));
    assert_eq!((private.len(), secret.len()), (pairs, 4), "{private:?} {secret:?}");
    // A key that deciphers also enciphers, and one that unwraps also wraps.
    let one = [r#"["sign"]"#, r#"["decrypt"]"#, r#"["derive"]"#, r#"["decapsulate"]"#];
    let of_secrets = [r#"["encrypt","decrypt"]"#, r#"["sign","verify"]"#];
    assert!(private.iter().all(|usage| one.contains(&usage.as_str())), "{private:?}");
    assert!(secret.iter().all(|usage| of_secrets.contains(&usage.as_str())), "{secret:?}");
}

/// Returns the usages of a key that are true in `object show`. `pkcs11-tool` must name the same
/// ones, except for those that it does not show.
fn usages(tool: &Tool, label: &str, class: &str) -> String {
    const ALL: [&str; 11] = [
        "sign",
        "verify",
        "decrypt",
        "encrypt",
        "unwrap",
        "wrap",
        "derive",
        "sign_recover",
        "verify_recover",
        "decapsulate",
        "encapsulate",
    ];
    let rows = tool.rows(&format!("object show --label {label} --class {class} --json"));
    let is_true = |name: &&str| {
        let attribute = format!("CKA_{}", name.to_uppercase());
        rows.iter().any(|row| row["attribute"] == attribute.as_str() && row["value"] == true)
    };
    let names: Vec<_> = ALL.into_iter().filter(is_true).collect();
    if let (true, Some(module)) = (has("pkcs11-tool"), peer(Known::Jeton)) {
        let mut command = Command::new("pkcs11-tool");
        command.arg("--module").arg(module).args(["--token-label", "mine", "--pin", PIN]);
        let kind = ["privkey", "pubkey", "secrkey"]
            [usize::from(class != "private") + usize::from(class == "secret-key")];
        command.args(["--list-objects", "--type", kind]);
        command.env("JETON_DIR", tool.scratch.file("tokens")).env("JETON_CONF", tool.scratch.file("conf"));
        let text = succeed(&mut command);
        let (_, of_key) = text.split_once(&format!("label:      {label}\n")).expect("the key");
        let (_, line) = of_key.split_once("Usage:").expect("its usages");
        let mut read: Vec<_> = line.lines().next().expect("a line").trim().split(", ").collect();
        let mut known: Vec<_> = names
            .iter()
            .copied()
            .filter(|name| ALL[usize::from(class == "secret-key")..7].contains(name))
            .collect();
        known.extend(known.is_empty().then_some("none"));
        read.sort_unstable();
        known.sort_unstable();
        assert_eq!(read, known, "{label} {class}");
    }
    names.join(" ")
}

#[test]
fn a_key_has_the_usages_that_the_option_names_and_no_other() {
    let Some(tool) = with_openssl() else { return };
    const PAIRS: [(&str, &str, &str); 5] = [
        ("sign", "sign", "verify"),
        ("decrypt", "decrypt", "encrypt"),
        ("wrap", "unwrap", "wrap"),
        ("derive", "derive", "derive"),
        ("sign,decapsulate", "sign decapsulate", "verify encapsulate"),
    ];
    let check_pair = |label: &str, (_, private, public): (&str, &str, &str)| {
        assert_eq!(usages(&tool, label, "private"), private, "{label}");
        assert_eq!(usages(&tool, label, "public"), public, "{label}");
    };
    // One file for each type: as `key generate`, `openssl genpkey` and `key unwrap` name it.
    let types = [
        ("rsa:2048", "rsa", "RSA -pkeyopt rsa_keygen_bits:2048"),
        ("ec:p256", "ec", "EC -pkeyopt ec_paramgen_curve:P-256"),
        ("ed25519", "ed", "ED25519"),
        ("x25519", "x", "X25519"),
        ("ml-dsa-44", "ml-dsa", ""),
        ("ml-kem-512", "ml-kem", ""),
    ];
    tool.ok("key generate --type aes:256 --label wrapping");
    for (kind, short, openssl) in types {
        for pair in PAIRS {
            let label = format!("{short}-{}", pair.0);
            tool.ok(&format!("key generate --type {kind} --label {label} --usage {} --extractable", pair.0));
            check_pair(&label, pair);
            if pair.0.contains(',') {
                tool.ok(&format!("key wrap --label {label} --with wrapping --out key --force"));
                for (usage, private, _) in PAIRS {
                    let label = format!("{short}-unwrapped-{usage}");
                    let line = "key unwrap key --with wrapping --type";
                    tool.ok(&format!("{line} {short} --label {label} --usage {usage}"));
                    assert_eq!(usages(&tool, &label, "private"), private, "{label}");
                }
            }
            if !openssl.is_empty() {
                tool.shell(&format!("openssl genpkey -algorithm {openssl} -out key.pem"));
                let label = format!("{short}-imported-{}", pair.0);
                tool.ok(&format!("key import key.pem --label {label} --usage {}", pair.0));
                check_pair(&label, pair);
            }
        }
    }
    tool.ok("key export --label ec-derive --out peer.pem");
    tool.write("secret", "0123456789abcdef0123456789abcdef");
    for (usage, one, other) in PAIRS.into_iter().take(4) {
        let both = if one == other { one.to_owned() } else { format!("{one} {other}") };
        for kind in ["aes", "generic"] {
            let length = if kind == "aes" { "aes:256" } else { "generic:32" };
            let line = format!("--usage {usage} --label {kind}-{usage}");
            tool.ok(&format!("key generate --type {length} --extractable {line}"));
            tool.ok(&format!("key import secret --type {kind} {line}-imported"));
            tool.ok(&format!("key derive peer.pem --with ec-derive --type {length} {line}-derived"));
            tool.ok(&format!("key wrap --label {kind}-{usage} --with wrapping --out key --force"));
            tool.ok(&format!("key unwrap key --with wrapping --type {kind} {line}-unwrapped"));
            for verb in ["", "-imported", "-derived", "-unwrapped"] {
                assert_eq!(
                    usages(&tool, &format!("{kind}-{usage}{verb}"), "secret-key"),
                    both,
                    "{kind}{verb}"
                );
            }
        }
    }
}
