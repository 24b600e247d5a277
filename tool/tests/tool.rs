//! Runs the tool's commands for administrators as a user does, and checks some results with other
//! programs.

mod common;

use std::os::unix::fs::symlink;

use common::*;

#[test]
fn a_token_is_listed_renamed_and_deleted() {
    let Some(tool) = Tool::new() else { return };
    let list = tool.json("token list --json");
    assert_eq!(list[0]["token"]["label"], "mine");
    assert_eq!(list[0]["token"]["user_pin"], "ok");
    assert_eq!([&list[0]["token"]["objects"], &list[1]["token"]["objects"]], [&Value::from(0), &Value::Null]);
    tool.ok("key generate --type ed25519 --label key");
    assert!(tool.ok("token list").contains("  2  /"), "two objects, and the path of the file");
    let lines = |options: &str| tool.ok(&format!("token list{options}")).lines().count();
    assert_eq!([lines(""), lines(" --all")], [1, 2]);
    assert!(tool.ok("token list --long").contains("Label:          mine"));
    tool.ok("token rename --token mine --label yours");
    assert!(tool.ok("token info --token yours").contains("Label:     yours"));
    assert!(tool.fails(3, "object list --token mine").contains("no token labelled"));
    says(tool.fails(2, "token delete --token yours"), "--yes");
    assert!(tool.ok("token delete --token yours --yes").contains("removed"));
    assert!(tool.fails(3, "object list").contains("no initialised token"));
}

#[test]
fn a_token_file_that_cannot_be_opened_fails_the_listing_and_is_logged_once() {
    let Some(tool) = Tool::new() else { return };
    let damaged = tool.file("tokens/0123456789abcdef.jeton");
    fs::write(&damaged, "not a token").expect("a file");
    for options in ["", " --long", " --json"] {
        let (code, text) = run(&mut tool.command(&format!("token list{options}")));
        assert!(code == 8 && text.contains("mine"), "exit {code}: {text}");
        assert_eq!(text.matches("ERROR").count(), 1, "{text}");
        assert!(text.contains(&format!("{damaged}: not a token; the log says why")), "{text}");
    }
}

#[test]
fn renaming_needs_the_so_pin_and_keeps_the_objects() {
    let Some(tool) = Tool::new() else { return };
    tool.ok("key generate --type ed25519 --label key");
    let mut command = tool.command("token rename --label x");
    says(fails(5, command.env("JETON_SO_PIN", "wrong pin")), "the PIN is wrong");
    tool.ok("token rename --label x");
    assert!(tool.ok("object list --token x --long").contains("Label:   key"));
}

#[test]
fn a_short_pin_is_refused_before_anything_is_written() {
    let Some(tool) = Tool::empty() else { return };
    for pins in [["--so-pin", "12345678", "--pin", "1"], ["--so-pin", "1", "--pin", "12345678"]] {
        let text = tool.fails(7, &[&["init-token", "--free", "--label", "short"][..], &pins].concat()[..]);
        assert!(text.contains("PIN has 1 bytes; the token takes 4 to 255"), "{text}");
        let list = tool.rows("token list --json");
        assert!(list.iter().all(|slot| slot["token"]["initialised"] == false), "{list:?}");
    }
    // C_GetTokenInfo pads a label with blanks, so no token has this one.
    tool.fails(2, &["token", "init", "--label", "x "]);
}

#[test]
fn an_initialised_token_is_erased_only_if_the_user_agrees() {
    let Some(tool) = Tool::new() else { return };
    assert!(tool.fails(2, "init-token --token mine --label new").contains("--yes"));
    tool.ok("init-token --token mine --label new --yes");
    assert_eq!(tool.json("token list --json")[0]["token"]["label"], "new");
}

#[test]
fn a_token_for_tests_has_known_pins_and_the_cheapest_derivation() {
    let Some(tool) = Tool::empty() else { return };
    // The default configuration: its derivation costs more than that of a token for tests.
    tool.write("conf", "");
    let make = |more: &str| succeed(&mut tool.without_pins(&format!("token init --test{more}")));
    assert!(make("").contains("The token \"test\" with serial"));
    let info = tool.json("token info --token test --json");
    for whose in ["so_pin", "user_pin"] {
        assert_eq!(info[whose]["argon2id"], serde_json::json!({ "memory_kib": 8, "passes": 1 }), "{info}");
    }
    assert!(make(" --if-absent").contains("already"));
    make(" --label other");
    succeed(&mut tool.without_pins("object list --token other --login --pin 87654321"));
    succeed(&mut tool.without_pins("token rename --token other --label third --so-pin 12345678"));
    assert_eq!(tool.json("token info --token third --json")["user_pin"]["argon2id"]["passes"], 2);
    for more in ["--pin 12345678", "--so-pin-fd 3", "--parameters x", "--module softhsm2"] {
        fails(2, &mut tool.without_pins(&format!("token init --test --label refused {more}")));
    }
    fails(2, &mut tool.without_pins("token init"));
}

#[test]
fn a_token_for_tests_is_refused_under_the_strict_policy() {
    let Some(tool) = Tool::empty() else { return };
    tool.configure("[policy]\nname = 'strict'\n");
    assert!(tool.fails(7, "token init --test").contains("the policy is strict"));
    assert!(tool.rows("token list --json").iter().all(|slot| slot["token"]["initialised"] == false));
}

#[test]
fn the_options_of_softhsm2_util_work() {
    let Some(tool) = Tool::empty() else { return };
    tool.ok(&["--init-token", "--free", "--label", "old", "--pin", PIN, "--so-pin", SO_PIN]);
    assert!(tool.ok("--show-slots").contains("Label:          old"));
    if has("openssl") {
        tool.shell(
            "openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -aes256 -pass pass:secret -out key.pem",
        );
        tool.write("aes", [7; 32]);
        let more = format!("--token old --label key --id A1B2 --pin {PIN}");
        let import = format!("--import key.pem --file-pin secret {more}");
        tool.ok(&import);
        assert!(tool.fails(4, &import).contains("--allow-duplicate"));
        tool.ok(&format!("--import aes --aes {more}"));
        assert_eq!(tool.rows("object list --id a1b2 --json").len(), 3);
    }
    tool.ok("--delete-token --token old --yes");
}

#[test]
fn pins_are_changed_unblocked_and_reset() {
    let Some(tool) = Tool::new() else { return };
    tool.write("new", "second pin\n");
    tool.ok("pin change --new-pin-file new");
    assert!(tool.fails(5, "object list").contains("CKR_PIN_INCORRECT"));
    tool.ok("object list --pin-file new");
    tool.ok(&["pin", "unblock", "--new-pin", PIN]);
    tool.ok("object list");
    tool.ok(&["pin", "change", "--so", "--new-pin", "third so pin"]);
    assert!(tool.fails(5, &["pin", "unblock", "--new-pin", PIN]).contains("CKR_PIN_INCORRECT"));
    let mut reset = tool.command("pin reset");
    succeed(reset.env("JETON_SO_PIN", "fourth so pin"));
    tool.ok(&["pin", "unblock", "--so-pin", "fourth so pin", "--new-pin", PIN]);
    tool.ok("pin reset --failures");
    says(tool.fails(7, "pin change --new-pin x"), "has 1 bytes");
}

#[test]
fn a_pin_comes_from_a_file_a_descriptor_a_credential_a_variable_or_a_uri() {
    let Some(tool) = Tool::new() else { return };
    tool.write("pin", format!("{PIN}\n"));
    let list = ["object", "list", "--login"];
    let with = |more: &[&str]| run(&mut tool.without_pins(&[&list[..], more].concat()[..])).0;
    assert_eq!(with(&["--pin-file", "pin"]), 0);
    assert_eq!(with(&["--pin", PIN]), 0);
    let source = format!("pkcs11:token=mine?pin-source=file:{}", tool.file("pin"));
    assert_eq!(with(&["--token", &source]), 0);
    assert_eq!(with(&["--token", &format!("pkcs11:token=mine?pin-value={PIN}")]), 0);
    let mut command = tool.without_pins(&[&list[..], &["--pin-credential", "pin"]].concat()[..]);
    succeed(command.env("CREDENTIALS_DIRECTORY", tool.path()));
    assert_eq!(with(&["--pin-credential", "pin"]), 1);
    let tokens = tool.file("tokens");
    let conf = tool.file("conf");
    let exe = env!("CARGO_BIN_EXE_jeton");
    tool.shell(&format!("JETON_DIR={tokens} JETON_CONF={conf} {exe} object list --login --pin-fd 3 3<pin"));
}

#[test]
fn a_pin_is_typed_at_a_prompt_without_an_echo() {
    let Some(tool) = Tool::new() else { return };
    let type_in = |pin: &str| {
        // `script` runs the tool on a new terminal, and passes its own input to this terminal.
        let line = format!(
            "(sleep 1; echo {pin}) | script --quiet --return --command '{} object list --login' /dev/null",
            env!("CARGO_BIN_EXE_jeton")
        );
        let mut command = Command::new("sh");
        command.args(["-c", &line]).env("JETON_DIR", tool.file("tokens"));
        run(command.env("JETON_CONF", tool.file("conf")).env_remove("JETON_PIN"))
    };
    let (code, text) = type_in(PIN);
    assert!(code == 0 && !text.contains(PIN), "{text}");
    let (code, text) = type_in("wrongwrong");
    assert!(code == 5 && text.contains("CKR_PIN_INCORRECT"), "{text}");
    assert!(text.contains("9 tries left"), "{text}");
}

#[test]
fn a_uri_chooses_a_module_only_if_the_user_names_the_same_one() {
    let Some(tool) = Tool::new() else { return };
    let module = peer(Known::Jeton).expect("the module");
    let module = module.to_str().expect("UTF-8");
    let list = |uri: &str, more: &[&str]| {
        let (code, text) = run(&mut tool.command(&[&["object", "list", "--token", uri], more].concat()[..]));
        assert!(code == 0 || text.contains("loads only if --module names it too"), "{text}");
        code
    };
    let path = format!("pkcs11:token=mine?module-path={module}");
    assert_eq!(list(&path, &[]), 2);
    assert_eq!(list(&path, &["--module", "softhsm2"]), 2);
    assert_eq!(list(&path, &["--module", module]), 0);
    assert_eq!(list(&path, &["--module", "jeton"]), 0);
    assert_eq!(list("pkcs11:token=mine?module-path=/tmp/evil.so", &["--module", "jeton"]), 2);
    for (name, expected) in [("jeton", 0), ("jeton_pkcs11", 0), ("libjeton_pkcs11", 0), ("softhsm2", 2)] {
        assert_eq!(list(&format!("pkcs11:token=mine?module-name={name}"), &["--module", "jeton"]), expected);
    }
    assert_eq!(list("pkcs11:token=mine?module-name=jeton", &[]), 2);
    let uri = format!("pkcs11:token=mine;object=x?module-path={module}");
    tool.fails(2, &["object", "show", "--uri", &uri]);
}

#[test]
fn every_attribute_of_a_uri_must_fit_before_an_object_is_deleted() {
    let Some(tool) = Tool::new() else { return };
    tool.ok("key generate --type ec:p256 --label k");
    let delete = |attribute: &str| {
        let uri = format!("pkcs11:{attribute};object=k;type=private");
        run(&mut tool.command(&["object", "delete", "--yes", "--uri", &uri]))
    };
    for attribute in [
        "library-manufacturer=Other",
        "library-description=Other",
        "library-version=99.1",
        "slot-manufacturer=Other",
        "slot-description=Other",
        "slot-id=77",
    ] {
        let (status, text) = delete(attribute);
        assert!(status == 3 && text.contains(attribute), "{attribute}: {status} {text}");
    }
    assert_eq!(delete("library-manufacturer=Jeton;slot-manufacturer=Jeton").0, 0);
}

#[test]
fn an_empty_variable_counts_as_absent_and_one_that_is_not_utf_8_is_named() {
    use std::os::unix::ffi::OsStrExt;
    let Some(tool) = Tool::new() else { return };
    succeed(tool.command("token list").env("JETON_MODULE", ""));
    let mut list = tool.command("object list");
    let text = fails(2, list.env("JETON_PIN", std::ffi::OsStr::from_bytes(b"geheim\xe4\xf6")));
    assert!(text.contains("JETON_PIN is not UTF-8") && !text.contains("geheim"), "{text}");
}

#[test]
fn objects_are_generated_listed_changed_copied_and_deleted() {
    let Some(tool) = Tool::new() else { return };
    const KEYS: [(&str, &str); 9] = [
        ("rsa:2048", "RSA 2048"),
        ("ec:p384", "EC P-384"),
        ("ed25519", "Ed25519"),
        ("x25519", "X25519"),
        ("ml-dsa-65", "ML-DSA-65"),
        ("mldsa65-ed25519", "MLDSA65-Ed25519"),
        ("ml-kem-768", "ML-KEM-768"),
        ("aes:256", "AES 256"),
        ("generic:32", "generic 256"),
    ];
    for (kind, _) in KEYS {
        tool.ok(&format!("key generate --type {kind} --label {kind}"));
    }
    let list = tool.rows("object list --json");
    for (kind, shown) in KEYS {
        assert!(list.iter().any(|row| row["key_type"] == shown && row["label"] == kind), "{kind}: {list:?}");
    }
    let private: Vec<_> = list.iter().filter(|row| row["class"] == "private").collect();
    assert_eq!(private.len(), 7);
    // The URI of a listing finds the object again.
    let uri = private[0]["uri"].as_str().expect("a URI");
    let text = tool.ok(&["object", "show", "--uri", uri]);
    assert!(text.contains("CKA_CLASS") && !text.contains("CKA_PRIVATE_EXPONENT"), "{text}");
    let text = tool.ok("object show --label x25519 --class private");
    for line in [
        "CLASS = CKO_PRIVATE_KEY",
        "LABEL = x25519",
        "EC_PARAMS = X25519",
        "KEY_TYPE = CKK_EC_MONTGOMERY",
        "SENSITIVE = yes",
    ] {
        assert!(text.contains(&format!("CKA_{line}\n")), "{line}: {text}");
    }
    let shown = tool.rows("object show --label aes:256 --json");
    let value = |name: &str| shown.iter().find(|row| row["attribute"] == name).map(|row| &row["value"]);
    assert_eq!(value("CKA_VALUE_LEN"), Some(&Value::from(32)));
    assert_eq!(value("CKA_EXTRACTABLE"), Some(&Value::from(false)));
    assert_eq!(value("CKA_KEY_GEN_MECHANISM"), Some(&Value::from("CKM_AES_KEY_GEN")));
    for verb in ["ls", "--token mine object list", "--token mine --label x25519 key list --class public"] {
        assert!(tool.ok(verb).contains("public"), "{verb}");
    }
    assert!(!tool.ok("key list").contains("cert"));
    tool.ok("object set --class secret-key --label aes:256 --set-label new --set-id 77");
    tool.ok("object copy --class secret-key --id 77 --set-label twin");
    assert!(tool.fails(1, "object show --id 77").contains("2 objects fit"));
    assert!(tool.fails(2, "object delete --id 77").contains("--yes"));
    assert!(tool.fails(2, "object delete --yes").contains("choose the objects"));
    assert!(tool.ok("object delete --id 77 --yes").contains("2 deleted"));
    assert!(tool.fails(3, "object delete --id 77 --yes").contains("no such object"));
}

#[test]
fn private_keys_of_every_format_are_imported_and_sign() {
    let Some(tool) = Tool::new() else { return };
    if !has("openssl") || !has("ssh-keygen") {
        return;
    }
    tool.write("message", "hello");
    tool.shell(
        "openssl genrsa -traditional -out rsa-pkcs1.pem 2048
         openssl rsa -traditional -in rsa-pkcs1.pem -outform DER -out rsa-pkcs1.der
         openssl pkcs8 -topk8 -nocrypt -in rsa-pkcs1.pem -out rsa-pkcs8.pem
         openssl pkcs8 -topk8 -nocrypt -in rsa-pkcs1.pem -outform DER -out rsa-pkcs8.der
         openssl pkcs8 -topk8 -passout pass:pw -in rsa-pkcs1.pem -out rsa-encrypted.pem
         openssl pkcs8 -topk8 -scrypt -passout pass:pw -in rsa-pkcs1.pem -outform DER -out rsa-scrypt.der
         openssl ecparam -name prime256v1 -genkey -out p256-sec1.pem
         openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-384 -out p384-pkcs8.pem
         openssl genpkey -algorithm ed25519 -out ed25519-pkcs8.pem
         openssl req -x509 -new -key p384-pkcs8.pem -subj '/CN=leaf' -out p384.crt
         openssl pkcs12 -export -inkey p384-pkcs8.pem -in p384.crt -name friendly -passout pass:pw -out p384.p12
         ssh-keygen -q -t rsa -b 2048 -N '' -f ssh-rsa
         ssh-keygen -q -t ecdsa -b 521 -N pw -f ssh-ecdsa
         ssh-keygen -q -t ed25519 -N '' -C comment -f ssh-ed25519",
    );
    const FILES: &str = "rsa-pkcs1.pem rsa-pkcs1.der rsa-pkcs8.pem rsa-pkcs8.der rsa-encrypted.pem rsa-scrypt.der \
        p256-sec1.pem p384-pkcs8.pem ed25519-pkcs8.pem p384.p12 ssh-rsa ssh-ecdsa ssh-ed25519";
    for (number, file) in FILES.split_whitespace().enumerate() {
        let id = format!("{number:02x}");
        tool.ok(&format!("key import {file} --label {file} --id {id} --file-pin pw --force"));
        tool.ok(&format!("sign message --id {id} --class private --out signature --force"));
        let text = tool.ok(&format!("verify message --id {id} --signature signature"));
        assert!(text.contains("is valid"), "{file}: {text}");
        tool.ok(&format!("key export --id {id} --out public.pem --force"));
        let hash = match file {
            _ if file.contains("ed25519") => "-rawin",
            _ if file.contains("p384") => "-rawin -digest sha384",
            "ssh-ecdsa" => "-rawin -digest sha512",
            _ => "-rawin -digest sha256",
        };
        tool.shell(&format!(
            "openssl pkeyutl -verify -pubin -inkey public.pem {hash} -in message -sigfile signature"
        ));
    }
    let cert = tool.json("cert list --json");
    assert_eq!(cert[0]["subject"], "CN=leaf");
    assert_eq!(cert[0]["id"], "09", "the certificate has the ID of its key");
    assert!(tool.fails(5, "key import rsa-encrypted.pem --file-pin bad").contains("password is wrong"));
    tool.write("not-a-key", "nothing");
    assert!(tool.fails(1, "key import not-a-key").contains("not a key or certificate"));
    // The public key is the one that ssh-keygen wrote.
    let line = tool.ok("key export --id 0c --format openssh");
    let own = String::from_utf8(tool.read("ssh-ed25519.pub")).expect("text");
    assert_eq!(line.split(' ').nth(1), own.split(' ').nth(1));
    // If the user gives no label, the name in the file is the label.
    tool.ok("key import ssh-ed25519 --force");
    assert!(tool.ok("object list").contains("comment"));
}

/// RFC 8080, 6.1: the first example with Ed25519.
#[test]
fn a_key_of_bind_is_imported_and_its_dnskey_is_the_one_of_the_rfc() {
    let Some(tool) = Tool::new() else { return };
    tool.write(
        "Kexample.com.+015+03613.private",
        "Private-key-format: v1.2\nAlgorithm: 15 (ED25519)\nPrivateKey: ODIyNjAzODQ2MjgwODAxMjI2NDUxOTAyMDQxNDIyNjI=\n",
    );
    tool.ok("key import Kexample.com.+015+03613.private --label zone");
    let record = tool.ok("key export --label zone --format dnskey");
    assert_eq!(record.trim(), "DNSKEY 257 3 15 l02Woi0iS8Aa25FQkUd9RMzZHJpBoRQwAQEX1SxZJA4=");
    let jwk = tool.json("key export --label zone --format jwk");
    assert_eq!((&jwk["kty"], &jwk["crv"]), (&"OKP".into(), &"Ed25519".into()));
}

/// The DER is SEQUENCE { VisibleString description, UTF8String URI }, as pkcs11-provider defines
/// it.
#[test]
fn a_key_file_names_the_private_key_and_the_file_of_the_pin_but_not_the_pin() {
    let Some(tool) = Tool::new() else { return };
    let made = tool.ok(&["key", "generate", "--type", "ec:p256", "--label", "a b", "--id", "01ff"]);
    assert_eq!(made, "EC P-256 key pair a b, ID 01ff\n");
    let kept = tool.ok(&["key", "generate", "--type", "ec:p256", "--label", "a b", "--if-absent", "--long"]);
    assert!(kept.contains("URI:") && kept.contains("public"), "{kept}");
    let export = ["key", "export", "--label", "a b", "--format", "uri", "--pin-source", "my pin", "--json"];
    let pem = tool.json(&export)["text"].as_str().expect("text").to_owned();
    let (label, der) = der::pem::decode_vec(pem.as_bytes()).expect("PEM");
    assert_eq!(label, "PKCS#11 PROVIDER URI");
    let path = tool.file("my%20pin");
    let uri = format!("pkcs11:token=mine;object=a%20b;type=private;id=%01%FF?pin-source=file:{path}");
    let element = |tag: u8, value: &[u8]| {
        let length = u8::try_from(value.len()).expect("a short path");
        let head = if length < 128 { vec![tag, length] } else { vec![tag, 0x81, length] };
        [&head, value].concat()
    };
    let values = [element(0x1A, b"PKCS#11 Provider URI v1.0"), element(0x0C, uri.as_bytes())].concat();
    assert_eq!(der, element(0x30, &values));
    assert!(!String::from_utf8_lossy(&der).contains(PIN));
    assert!(tool.fails(2, "key export --id 01ff --pin-source pin").contains("--format uri"));
    tool.ok("key generate --type ec:p256 --label twin --id 01ff --allow-duplicate");
    assert!(tool.fails(1, "key export --id 01ff --format uri").contains("2 objects fit"));
    tool.fails(2, "key export --id 01ff --class public --format uri");
}

/// RFC 9881 and RFC 9935: private keys that consist of the seed only. `lamps.rs` reads the other
/// encodings.
#[test]
fn ml_dsa_and_ml_kem_seeds_in_pkcs8_are_imported() {
    let Some(tool) = Tool::new() else { return };
    for (label, key_type) in [("ml-dsa-44", "ML-DSA-44"), ("ml-kem-512", "ML-KEM-512")] {
        let samples = concat!(env!("CARGO_MANIFEST_DIR"), "/../client/formats/tests/samples/lamps");
        tool.ok(&format!("key import {samples}/{label}-seed.pem --label {label}"));
        assert!(tool.ok(&format!("object list --label {label}")).contains(key_type));
    }
    tool.signs("ml-dsa-44");
}

#[test]
fn damaged_files_are_refused_and_leave_no_object() {
    let Some(tool) = with_openssl() else { return };
    tool.shell(
        "openssl genpkey -algorithm ed25519 -out key.pem
         openssl req -x509 -new -key key.pem -subj '/CN=a' -out cert.pem
         cat key.pem cert.pem > both.pem; printf -- '-----BEGIN CERTIFICATE-----\\nAAAA\\n-----END CERTIFICATE-----\\n' >> both.pem",
    );
    tool.fails(8, "key import both.pem");
    assert_eq!(tool.rows("object list --json").len(), 0);
    // The import creates the key, and fails at the certificate, whose ID is taken. So the import
    // removes the key again.
    tool.ok("cert import cert.pem");
    tool.shell("cat key.pem cert.pem > both.pem");
    assert!(tool.fails(4, "key import both.pem").contains("--allow-duplicate"));
    assert_eq!(tool.rows("object list --json").len(), 1);
}

#[test]
fn a_public_key_is_accepted_only_beside_its_private_key() {
    let Some(tool) = with_openssl() else { return };
    tool.shell(
        "openssl genpkey -algorithm ed25519 -out key.pem
         openssl genpkey -algorithm ed25519 -out other.pem
         openssl pkey -in key.pem -pubout -out public.pem
         cat public.pem other.pem > wrong.pem; cat public.pem key.pem > both.pem",
    );
    for file in ["public.pem", "wrong.pem"] {
        assert!(tool.fails(1, &["key", "import", file]).contains("without its private key"), "{file}");
    }
    tool.ok("key import both.pem --label pair");
    assert_eq!(tool.rows("object list --json --label pair").len(), 2);
}

#[test]
fn secret_keys_wrap_unwrap_encrypt_and_decrypt() {
    let Some(tool) = Tool::new() else { return };
    tool.write("aes.hex", "000102030405060708090a0b0c0d0e0f\n");
    tool.write("aes.raw", (0..16).collect::<Vec<u8>>());
    for label in ["hex", "raw"] {
        tool.ok(&format!("key import aes.{label} --type aes --label {label}"));
    }
    tool.write("short", [1; 15]);
    assert!(tool.fails(7, "key import short --aes").contains("16, 24 or 32"));
    tool.write("message", "attack at dawn");
    for method in ["aes-gcm", "aes-cbc"] {
        tool.ok(&format!("encrypt message --label hex --method {method} --out sealed --force"));
        assert_eq!(tool.ok(&format!("decrypt sealed --label raw --method {method}")), "attack at dawn");
    }
    tool.ok("key generate --type rsa:2048 --label rsa --extractable");
    tool.ok("encrypt message --label rsa --out sealed --force");
    assert_eq!(tool.ok("decrypt sealed --label rsa"), "attack at dawn");
    tool.ok("key wrap --label rsa --with hex --out wrapped");
    tool.ok("key unwrap wrapped --with raw --type rsa --label back");
    assert_eq!(tool.ok("decrypt sealed --label back"), "attack at dawn");
    says(tool.fails(7, "key wrap --label back --with hex --out again"), "CKR_KEY_UNEXTRACTABLE");
}

#[test]
fn certificates_and_requests_of_every_algorithm_are_accepted_by_openssl() {
    let Some(tool) = with_openssl() else { return };
    for kind in ["rsa:2048", "ec:p256", "ec:p384", "ec:p521", "ed25519", "ml-dsa-44"] {
        tool.ok(&format!("key generate --type {kind} --label {kind}"));
        let names = "--subject CN=www.example.org,O=Example --san dns:www.example.org --san ip:127.0.0.1";
        let more = format!("--label {kind} {names}");
        tool.ok(&format!("csr --out csr.pem --force {more}"));
        tool.ok(&format!("cert self-sign --ca --days 30 --import --out cert.pem --force {more}"));
        tool.ok(&format!("cert export --out again.pem --force --label {kind}"));
        assert_eq!(tool.read("cert.pem"), tool.read("again.pem"));
        if kind.starts_with("ml") {
            continue;
        }
        let text = tool.shell("openssl req -in csr.pem -noout -verify -text 2>&1");
        assert!(text.contains("verify OK") && text.contains("DNS:www.example.org"), "{text}");
        let text = tool.shell("openssl verify -x509_strict -check_ss_sig -CAfile cert.pem cert.pem");
        assert!(text.contains("OK"), "{kind}: {text}");
    }
    assert_eq!(tool.rows("cert list --json").len(), 6);
    assert!(tool.fails(2, "csr --label ed25519 --subject nothing").contains("is not a subject"));
    // Not UTF-8.
    assert!(tool.fails(7, r"csr --label ed25519 --subject CN=\e4").contains("is not a valid subject"));
}

#[test]
fn a_chain_is_imported_each_certificate_with_the_id_of_its_key() {
    let Some(tool) = with_openssl() else { return };
    tool.shell(
        "openssl req -x509 -newkey ed25519 -noenc -keyout ca.key -subj '/CN=ca' -out ca.pem
         openssl req -x509 -newkey ed25519 -noenc -keyout leaf.key -subj '/CN=leaf' -CA ca.pem -CAkey ca.key -out leaf.pem
         cat leaf.key leaf.pem ca.pem > all.pem",
    );
    tool.ok("key import all.pem --label server --id 01");
    let list = tool.rows("cert list --json");
    let mut rows: Vec<_> = list.iter().map(|row| (row["label"].as_str(), row["id"] == "01")).collect();
    rows.sort_unstable();
    assert_eq!(rows, [(Some("ca"), false), (Some("server"), true)]);
}

#[test]
fn keys_with_counted_uses_show_them_and_hss_keys_warn_at_a_tenth() {
    let Some(tool) = with_openssl() else { return };
    tool.configure("[stateful]\nreserve = 15\n");
    tool.write("firmware", "firmware");
    let key = tool.json("key generate --type hss:5/4 --label firmware --json");
    assert_eq!(key[0]["uses_left"], 32, "{key}");
    let sign = |label: &str| format!("sign firmware --label {label} --out signature --force");
    assert!(!tool.ok(&sign("firmware")).contains("left"));
    says(tool.ok(&sign("firmware")), "warning: 2 of 32 signatures are left");
    assert!(tool.ok("verify firmware --label firmware --signature signature").contains("is valid"));
    assert!(tool.ok("object list --long").contains("Uses:    2 left"));
    tool.ok("cert self-sign --label firmware --subject CN=Root --ca --out root.pem");
    let parsed = tool.shell("openssl asn1parse -in root.pem");
    // RFC 9802: both algorithms and the key. OpenSSL 3.0 has no name for them.
    let names = ["1.2.840.113549.1.9.16.3.17", "id-alg-hss-lms-hashsig"];
    let found = parsed.lines().filter(|line| names.iter().any(|name| line.ends_with(name))).count();
    assert_eq!(found, 3, "{parsed}");
    tool.fails(7, &sign("firmware"));

    tool.ok("key generate --type ec:p256 --label limited --uses 15");
    assert!(tool.ok("object show --label limited --class private").contains("Uses:    15 left"));
    let again = "key generate --type ec:p256 --label limited --if-absent --uses";
    tool.ok(&format!("{again} 15"));
    tool.fails(4, &format!("{again} 14"));
    says(tool.ok(&sign("limited")), "warning: 0 of 15 signatures are left");
    says(tool.fails(7, &sign("limited")), "CKR_KEY_EXHAUSTED");
    tool.configure("");
    tool.ok("key generate --type ec:p256 --label twice --uses 2");
    says(tool.ok(&sign("twice")), "warning: 1 of 2 signatures are left");
    tool.fails(2, "key generate --type aes:256 --label secret --uses 3");
    tool.fails(2, "key generate --type hss:5/3 --label other");
}

#[test]
fn a_wrong_signature_is_not_valid() {
    let Some(tool) = Tool::new() else { return };
    for kind in ["ec:p521", "rsa:2048", "ed25519"] {
        tool.ok(&format!("key generate --type {kind} --label {kind}"));
        tool.signs(kind);
        tool.write("message", "another");
        let verify = format!("verify message --label {kind} --signature signature");
        assert!(tool.fails(1, &verify).contains("NOT valid"));
        tool.write("signature", "garbage");
        tool.fails(1, &verify);
    }
    tool.ok("sign message --label ec:p521 --mechanism CKM_ECDSA_SHA256 --out raw");
    assert_eq!(tool.read("raw").len(), 132);
    tool.ok("verify message --label ec:p521 --mechanism ecdsa-sha256 --signature raw");
}

#[test]
fn a_verification_without_a_login_says_that_the_key_is_not_authenticated() {
    const WARNING: &str = "the public key is not authenticated";
    let Some(tool) = Tool::new() else { return };
    tool.write("message", "hello");
    tool.ok("key generate --type ec:p256 --label key");
    tool.signs("key");
    let verify = "verify message --label key --signature signature";
    let text = succeed(&mut tool.without_pins(verify));
    assert!(text.contains("is valid") && text.contains(WARNING), "{text}");
    let text = tool.ok(verify);
    assert!(text.contains("is valid") && !text.contains(WARNING), "{text}");
    // The log says so to users of other programs.
    tool.write("logged", "[log]\nlevel = 'info'\n");
    let text = succeed(tool.without_pins(verify).env("JETON_CONF", tool.file("logged")));
    assert!(text.contains("public objects are not authenticated before a login"), "{text}");
}

#[test]
fn hashes_and_random_bytes_come_from_the_module() {
    let Some(tool) = Tool::new() else { return };
    tool.write("abc", "abc");
    let digest = tool.ok("hash abc");
    assert_eq!(digest.trim(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_eq!(tool.ok("hash abc --mechanism sha1").trim().len(), 40);
    let (one, two) = (tool.ok("random 16"), tool.ok("random 16"));
    assert!(one.trim().len() == 32 && one != two);
    tool.fails(2, "random 0");
}

#[test]
fn output_files_are_private_unless_they_are_public_and_replace_nothing() {
    let Some(tool) = Tool::new() else { return };
    tool.ok("random 8 --out secret");
    tool.ok("key generate --type rsa:1234 --label key");
    tool.ok("key generate --type rsa:1234 --label key --if-absent");
    let command = |verb: &str| {
        let exe = env!("CARGO_BIN_EXE_jeton");
        tool.shell(&format!("umask 027; JETON_DIR={} {exe} {verb}", tool.file("tokens")));
    };
    command("key export --label key --out public");
    command("key export --label key --out public --force");
    for (file, mode) in [("secret", 0o600), ("public", 0o640)] {
        let metadata = fs::metadata(tool.file(file)).expect("the file");
        assert_eq!(metadata.permissions().mode() & 0o777, mode, "{file}");
    }
    let before = tool.read("secret");
    assert!(tool.fails(4, "random 8 --out secret").contains("--force"));
    symlink(tool.file("secret"), tool.file("link")).expect("a link");
    tool.fails(4, "random 8 --out link");
    tool.ok("random 8 --out link --force");
    assert_eq!(tool.read("secret"), before);
}

#[test]
fn the_configuration_is_shown_and_checked() {
    let Some(tool) = Tool::new() else { return };
    assert_eq!(tool.json("config show --json")["pin.passes"], "1");
    assert!(tool.ok("config check").contains("is valid"));
    tool.write("conf", "[pin]\nretires = 3\n");
    assert!(tool.fails(10, "config check").contains("unknown field `retires`"));
}

#[test]
fn the_uses_in_an_audit_log_are_counted() {
    let Some(tool) = Tool::new() else { return };
    tool.configure(&format!("[audit]\nfile = '{}'\n", tool.file("audit.jsonl")));
    tool.ok("key generate --type ec:p256 --label signer --id 0a");
    tool.write("message", "hello");
    tool.ok("sign message --label signer --out one");
    tool.ok("sign message --label signer --out two");
    let mut wrong = tool.command("sign message --label signer --out three");
    assert_eq!(run(wrong.env("JETON_PIN", "a wrong one")).0, 5);

    let report = tool.json("audit report audit.jsonl --json");
    let entry = |list: &str, key: &str, value: &str| {
        let list = report[list].as_array().expect("a list");
        let found = list.iter().find(|entry| entry[key] == value);
        found.unwrap_or_else(|| panic!("{value} in {report:#}")).clone()
    };
    let counts = |entry: Value| (entry["calls"].as_u64().expect("calls"), entry["failed"].as_u64());
    assert_eq!(counts(entry("functions", "function", "C_SignInit")), (2, Some(0)));
    assert_eq!(counts(entry("functions", "function", "C_Login")), (4, Some(1)));
    assert_eq!(counts(entry("mechanisms", "mechanism", "CKM_EC_KEY_PAIR_GEN")), (1, Some(0)));
    let key = entry("keys", "label", "signer");
    assert_eq!((&key["id"], &key["token"]), (&"0a".into(), &tool.serial().into()));
    assert_eq!(counts(key), (3, Some(0)));
    let clients = report["clients"].as_array().expect("a list");
    assert_eq!(clients.len(), 1, "{report:#}");
    assert_eq!((&clients[0]["program"], &clients[0]["calls"]), (&"jeton".into(), &report["calls"]));
    assert_eq!((&report["lost_records"], &report["invalid_lines"]), (&0.into(), &0.into()));

    let text = tool.ok("audit report audit.jsonl");
    assert!(text.contains("C_SignInit") && text.contains("signer"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    tool.fails(3, "audit report absent.jsonl");
}

#[test]
fn another_module_is_administered_the_same_way() {
    let Some(tool) = Tool::empty() else { return };
    if peer(Known::SoftHsm2).is_none() || !has("openssl") {
        return;
    }
    fs::create_dir(tool.file("tokens")).expect("a directory");
    tool.write("softhsm", format!("directories.tokendir = {}\n", tool.file("tokens")));
    let softhsm = |line: &str| {
        let mut command = tool.command(&format!("{line} --module softhsm2"));
        succeed(command.env("SOFTHSM2_CONF", tool.file("softhsm")))
    };
    softhsm("token init --label hsm");
    softhsm("key generate --type ec:p256 --label ec --usage sign");
    let listed = softhsm("token list");
    assert!(listed.trim_end().ends_with("  ok  ok  1"), "the PINs and the public key: {listed}");
    assert!(softhsm("token list --long").contains("Public objects: 1\n"));
    tool.shell("openssl genrsa -out rsa.pem 2048; openssl genpkey -algorithm ec -pkeyopt ec_paramgen_curve:P-256 -out ec.pem");
    softhsm("key import rsa.pem --label rsa");
    softhsm("key import ec.pem --label imported");
    tool.write("message", "hello");
    for label in ["ec", "rsa", "imported"] {
        softhsm(&format!("sign message --label {label} --out signature --force"));
        softhsm(&format!("verify message --label {label} --signature signature"));
        softhsm(&format!("key export --label {label} --out public.pem --force"));
        tool.shell("openssl dgst -sha256 -verify public.pem -signature signature message");
        let subject = "--subject CN=a --import --out c.pem --force";
        softhsm(&format!("cert self-sign --label {label} {subject}"));
    }
    assert!(softhsm("object list").contains("RSA 2048"));
    softhsm("pin change --new-pin another");
}

#[test]
fn the_first_mistakes_are_answered_with_the_next_step() {
    let Some(tool) = Tool::empty() else { return };
    for (line, tip) in [
        ("init --label a", "jeton token init"),
        ("export --label a", "jeton key export"),
        ("show", "jeton object show"),
        ("key delete --label a", "jeton object delete"),
        ("key show --label a", "jeton object show"),
        ("cert delete", "jeton object delete"),
    ] {
        says(tool.fails(2, line), format!("'{tip}'"));
    }
    // Similar letters are still proposed.
    says(tool.fails(2, "tokn list"), "'token'");
    says(
        tool.fails(1, "token list --module softhsm"),
        "unknown module \"softhsm\"; known are jeton, softhsm2, nss",
    );
    says(tool.fails(10, "token list --module ./absent.so"), "absent.so");
    says(tool.fails(2, &["token", "init", "--label", ""]), "a label has 1 to 32 bytes");
    says(
        tool.fails(3, "agent status --socket absent"),
        "no agent listens at absent: `systemctl status jeton-agent.socket`",
    );
    tool.ok("token init --label web");
    tool.ok("token init --label vpn");
    let several = tool.fails(2, "object list");
    says(&several, "several tokens; choose one with --token, --serial or --slot: ");
    assert!(several.contains("web") && several.contains("vpn"), "{several}");
}
