//! Files as other programs write them: each is read, or the message says why it is not.

mod common;

use common::*;

const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/foreign/");

fn with_ssh_keygen() -> Option<Tool> {
    Tool::new().filter(|_| has("ssh-keygen") && has("openssl"))
}

/// Each file: the verb that imports it, the password if one is needed, the exit status, and a part
/// of the output.
const TABLE: [(&str, &str, &str, i32, &str); 65] = [
    ("cert", "ca-oid-2.25-uuid.pem", "", 0, "Odd CA"),
    ("cert", "cert-cn-comma.pem", "", 0, "Doe, Jane"),
    ("cert", "cert-cn-quotes.pem", "", 0, "\"quoted\" <x>;#"),
    ("cert", "cert-ec-compressed.pem", "", 0, "compressed"),
    ("cert", "cert-ec-explicit-p256.pem", "", 0, "explicit"),
    ("cert", "cert-rsa-pss.pem", "", 0, "pss"),
    ("cert", "cert-not-before-1950.der", "", 0, "test one"),
    ("cert", "cert-oid-2.25-uuid.pem", "", 0, "oid"),
    ("cert", "cert-serial-24-bytes.pem", "", 0, "s22"),
    ("cert", "chain-pkcs7.pem", "", 0, "test one"),
    ("cert", "chain-same-key-twice.pem", "", 0, "Root X1"),
    ("cert", "pem-cert-then-encrypted-key.pem", "", 0, "test one"),
    ("cert", "pem-cert-trailing-spaces.pem", "", 0, "test one"),
    ("cert", "p12-java-no-password-truststore.p12", "", 0, "a"),
    ("cert", "p12-null-password.p12", "", 0, "g"),
    ("key", "key-der-with-newline.der", "", 0, "RSA 2048"),
    ("key", "key-dh-ffdhe2048.pem", "", 0, "DH"),
    ("key", "key-ec-explicit-p256.pem", "", 0, "EC P-256"),
    ("key", "key-rsa-n-e-d-only.pem", "", 0, "RSA 2048"),
    ("key", "key-rsa-pss.pem", "", 0, "RSA 2048"),
    ("key", "key-ec-twice.pem", "", 0, "EC P-256"),
    ("key", "p12-mac-empty-password.p12", "abcd", 0, "EC P-256"),
    ("key", "p12-nested-bags.p12", "", 0, "EC P-256"),
    ("key", "p12-null-password.p12", "", 0, "RSA 2048"),
    ("key", "pem-trailing-spaces.pem", "", 0, "RSA 2048"),
    ("key", "p12-nss-export.p12", "abcd", 0, "RSA 2048"),
    ("key", "p8-pbe-sha1-3des.pem", "abcd", 0, "RSA 2048"),
    ("key", "p8-pbe-md5-des.pem", "abcd", 0, "RSA 2048"),
    ("key", "key-ec-hybrid-point.pem", "", 0, "EC P-256"),
    ("key", "key-ml-dsa-44-bare-seed.pem", "", 0, "ML-DSA-44"),
    ("key", "key-ml-dsa-44-oqskeypair.pem", "", 0, "ML-DSA-44"),
    ("key", "key-ml-kem-512-bare-priv.pem", "", 0, "ML-KEM-512"),
    ("key", "pbmac1.p12", "abcd", 0, "RSA 2048"),
    ("cert", "p12-nss-export.p12", "abcd", 0, "nsskey"),
    ("cert", "p12-unencrypted-cert-aki-issuer.p12", "abcd", 0, "aki"),
    ("key", "bind-hsm-label.private", "", 7, "names a key in another token"),
    ("key", "key-ec-foreign-public-key.pem", "", 8, "the public key of another private key"),
    ("key", "key-dsa.pem", "", 7, "DSA is obsolete and not supported; generate"),
    ("key", "key-rsa-foreign-public-key.der", "", 8, "the public key of another private key"),
    ("key", "key-ed25519-foreign-public-key.der", "", 8, "the public key of another private key"),
    ("key", "ssh-ed25519-other-seed", "", 8, "the public key of another private key"),
    ("key", "p12-null-after-wrong-mac.p12", "abcd", 8, "damaged PKCS#12 file"),
    ("key", "key-ec-two-curves.pem", "", 8, "names two curves"),
    ("key", "key-der-cut.der", "", 8, "it is cut off"),
    ("key", "key-rsa-altered.der", "", 8, "do not fit each other"),
    ("key", "key-rsa-and-pkcs1-public-key.pem", "", 0, "RSA 2048"),
    ("key", "key-ec-and-compressed-public-key.pem", "", 0, "EC P-256"),
    ("key", "key-rsa-and-foreign-pkcs1-public-key.pem", "", 1, "without its private key"),
    ("key", "rsa-public-key-pkcs1.der", "", 1, "without its private key"),
    ("key", "key-ec-two-curves-in-one-tag.der", "", 8, "damaged EC key"),
    ("key", "bind-two-keys.private", "", 8, "a file has one key"),
    ("key", "p12-two-keys-in-one-bag.p12", "", 8, "damaged PKCS#12 file"),
    ("key", "p12-damaged-certificate.p12", "", 8, "damaged certificate"),
    ("key", "p12-bytes-after-certificate.p12", "", 8, "damaged certificate"),
    ("cert", "p7-damaged-certificate.p7b", "", 8, "damaged certificate"),
    ("cert", "pem-two-certificates-in-one-block.pem", "", 8, "damaged certificate"),
    ("key", "p12-secret-key-and-private-key.p12", "", 0, "secret keys of the file are not imported"),
    ("key", "p8-salt-64-bytes.der", "abcd", 8, "longer than 32 bytes"),
    ("key", "key-unknown-algorithm.der", "", 7, "1.2.840.10046.2.1 is not supported"),
    ("key", "p8-iterations-not-integer.der", "abcd", 8, "parameters of the encryption"),
    ("key", "key-rsa-768.pem", "", 7, "at least 1024 bits"),
    ("key", "p12-java-secret-key.p12", "changeit", 7, "secret keys only"),
    ("cert", "p8-pbe-md5-des.pem", "", 7, "a private key and no certificate"),
    ("cert", "csr-text-after.csr", "", 7, "a certificate request is not imported"),
    ("key", "p12-nss-export.p12", "wrong", 5, "password"),
];

#[test]
fn files_of_other_programs_are_read_or_refused_with_the_reason() {
    let Some(tool) = Tool::new() else { return };
    for (verb, file, password, expected, part) in TABLE {
        let mut command = tool.command(&format!("{verb} import {FILES}{file} --allow-duplicate"));
        if !password.is_empty() {
            command.env("JETON_FILE_PIN", password);
        }
        let (status, text) = run(&mut command);
        assert!(status == expected && text.contains(part), "{verb} {file}: {status} {text}");
    }
    // No odd certificate ends the list. One file has three certificates, and three files of keys
    // have one each.
    let read = TABLE.iter().filter(|(verb, _, _, status, _)| (*verb, *status) == ("cert", 0)).count();
    assert_eq!(tool.rows("cert list --json").len(), read + 5);
}

#[test]
fn a_file_of_an_unknown_format_is_refused_with_its_name() {
    let Some(tool) = with_ssh_keygen() else { return };
    tool.shell(
        "ssh-keygen -q -t ed25519 -N '' -f key; echo 'PuTTY-User-Key-File-3: ssh-rsa' >ppk
         printf '\\376\\355\\376\\355\\0\\0\\0\\2' >jks; printf '\\60\\13\\6\\11*\\206H\\206\\367\\15\\1\\7\\3' >p7
         echo hello >other",
    );
    for (file, status, part) in [
        ("ppk", 7, "puttygen"),
        ("jks", 7, "keytool -importkeystore"),
        ("p7", 7, "PKCS#7 file has no certificates"),
        ("key.pub", 7, "a public key of OpenSSH"),
        ("other", 1, "not a key or certificate"),
    ] {
        let text = tool.fails(status, &format!("key import {file}"));
        assert!(text.contains(part), "{file}: {text}");
    }
    tool.shell(
        "openssl genpkey -algorithm ED25519 -out key.pem
                openssl pkcs8 -topk8 -in key.pem -v2 aes-256-ofb -passout pass:pw -out ofb.pem",
    );
    let text = tool.fails(7, "key import ofb.pem");
    assert!(text.contains("protected with 2.16.840.1.101.3.4.1.43,"), "{text}");
}

#[test]
fn a_pkcs12_file_without_a_mac_is_read_with_a_warning() {
    let Some(tool) = with_openssl() else { return };
    tool.shell(
        "openssl req -x509 -newkey rsa:2048 -noenc -keyout key -subj /CN=a -out cert
         for mac in -nomac -macalg=sha256; do
             openssl pkcs12 -export -inkey key -in cert $(echo $mac | tr = ' ') -passout pass:pw -out file$mac
         done",
    );
    for (file, warns) in [("file-nomac", true), ("file-macalg=sha256", false)] {
        let mut import = tool.command(&format!("key import {file} --allow-duplicate"));
        let (code, text) = run(import.env("JETON_FILE_PIN", "pw"));
        assert_eq!((code, text.contains("the PKCS#12 file has no MAC")), (0, warns), "{file}: {text}");
    }
}

#[test]
fn files_in_utf_16_are_read() {
    let Some(tool) = Tool::new() else { return };
    let wide = |text: &[u8]| -> Vec<u8> {
        let units = text.iter().flat_map(|letter| [*letter, 0]);
        [0xff, 0xfe].into_iter().chain(units).collect()
    };
    for file in ["key-ec-explicit-p256.pem", "cert-cn-comma.pem"] {
        tool.write("wide", wide(&fs::read(format!("{FILES}{file}")).expect("a file")));
        tool.ok("key import wide");
    }
    tool.write("wide", wide(b"000102030405060708090a0b0c0d0e0f\r\n"));
    tool.ok("key import wide --type aes --label aes");
    assert!(tool.ok("object list --login").contains("AES 128"));
}

#[test]
fn keys_with_each_cipher_of_openssh_are_read() {
    let Some(tool) = with_ssh_keygen() else { return };
    for cipher in
        ["3des-cbc", "aes128-cbc", "aes256-ctr", "aes256-gcm@openssh.com", "chacha20-poly1305@openssh.com"]
    {
        tool.shell(&format!("rm -f key; ssh-keygen -q -t ed25519 -N secret -Z {cipher} -f key"));
        succeed(tool.command("key import key --allow-duplicate").env("JETON_FILE_PIN", "secret"));
        let mut wrong = tool.command("key import key");
        says(fails(5, wrong.env("JETON_FILE_PIN", "wrong")), "password is wrong");
    }
    tool.shell("(echo -----BEGIN OPENSSH PRIVATE KEY-----; sed '1d;$d' key | base64 -d | sed 's/chacha20-/blowfish-/' | base64; \
                echo -----END OPENSSH PRIVATE KEY-----) >other");
    assert!(tool.fails(7, "key import other").contains("a cipher or a type that is not supported"));
}

#[test]
fn keys_with_each_old_cipher_of_openssl_are_read() {
    let Some(tool) = with_openssl() else { return };
    tool.shell("openssl genrsa -out rsa 2048; openssl ecparam -name prime256v1 -genkey -noout -out ec");
    let legacy = "-provider legacy -provider default -passout pass:pässword";
    let traditional = |key: &str, cipher: &str| format!("pkey -in {key} -traditional -{cipher} {legacy}");
    let pkcs8 = |scheme: &str| format!("pkcs8 -topk8 -in ec {scheme} {legacy}");
    let mut commands = Vec::new();
    for (key, cipher) in
        [("rsa", "aes128"), ("ec", "aes192"), ("ec", "aes256"), ("rsa", "des3"), ("ec", "des")]
    {
        commands.push(traditional(key, cipher));
    }
    for scheme in
        ["MD5-DES", "MD5-RC2-64", "SHA1-DES", "SHA1-RC2-64", "SHA1-3DES", "SHA1-2DES", "SHA1-RC2-128"]
    {
        commands.push(pkcs8(&format!("-v1 PBE-{scheme}")));
    }
    commands.extend(["des", "des3", "aes-192-cbc"].map(|cipher| pkcs8(&format!("-v2 {cipher}"))));
    for command in commands {
        tool.shell(&format!("openssl {command} -out old"));
        succeed(tool.command("key import old --allow-duplicate").env("JETON_FILE_PIN", "pässword"));
        says(fails(5, tool.command("key import old").env("JETON_FILE_PIN", "wrong")), "password is wrong");
    }
    for (command, status, reason) in [
        (traditional("rsa", "camellia128"), 7, "protected with CAMELLIA-128-CBC in DEK-Info, which is not"),
        (pkcs8("-v1 PBE-SHA1-RC4-128"), 7, "protected with RC4, which is not"),
    ] {
        tool.shell(&format!("openssl {command} -out old"));
        says(fails(status, tool.command("key import old").env("JETON_FILE_PIN", "pässword")), reason);
    }
    tool.shell(&format!("openssl {} -out old", traditional("rsa", "aes128")));
    let text = String::from_utf8(tool.read("old")).expect("PEM");
    let (start, end) = text.split_once("DEK-Info: AES-128-CBC,").expect("a header");
    for (name, header, reason) in [
        ("short", format!("DEK-Info: AES-128-CBC,{}", &end[2..]), "the header DEK-Info"),
        ("none", format!("Other: {end}"), "Proc-Type and no DEK-Info"),
    ] {
        tool.write(name, format!("{start}{header}"));
        says(tool.fails(8, &format!("key import {name}")), reason);
    }
}

#[test]
fn a_certificate_has_the_id_of_its_key() {
    let Some(tool) = Tool::new() else { return };
    tool.ok("key generate --type ec:p256 --label ca --id 01");
    tool.ok("cert self-sign --label ca --subject CN=CA --ca --import --out ca.pem");
    tool.ok("ca init --label ca");
    tool.ok(&format!("cert import {FILES}ca-oid-2.25-uuid.pem"));
    for (label, id) in [("www", ""), ("mail", "--id 77")] {
        tool.ok(&format!("key generate --type rsa:2048 --label {label} {id}"));
        tool.ok(&format!("csr --label {label} --subject CN={label} --out {label}.csr"));
        let request = [&b"From: someone\r\n\r\n"[..], &tool.read(&format!("{label}.csr")), b"\n\n"].concat();
        tool.write("request", request);
        tool.ok(&format!(
            "cert issue request --label ca --profile tls-server --san dns:a.example --out {label}.pem"
        ));
        tool.ok(&format!("cert import {label}.pem"));
        let rows = tool.rows("object list --json");
        let mut ids = rows.iter().filter(|row| row["label"] == label).map(|row| &row["id"]);
        let first = ids.next().expect("a key");
        assert_eq!(ids.filter(|id| *id == first).count(), 2, "{rows:?}");
        // The same issuer and serial number: the same certificate.
        assert!(tool.fails(4, &format!("cert import {label}.pem")).contains("serial number"));
        tool.ok(&format!("cert import {label}.pem --if-absent"));
    }
}

#[test]
fn a_certificate_has_the_id_of_its_key_whatever_the_encoding_of_the_key() {
    let Some(tool) = Tool::new() else { return };
    tool.ok(&format!("key import {FILES}key-ec-explicit-p256.pem --id 05"));
    tool.ok(&format!("key import {FILES}key-rsa-pss.pem --id 06"));
    for (file, id) in
        [("cert-ec-compressed.pem", "05"), ("cert-ec-explicit-p256.pem", "05"), ("cert-rsa-pss.pem", "06")]
    {
        tool.ok(&format!("cert import {FILES}{file}"));
        let rows = tool.rows("cert list --json");
        assert!(
            rows.iter().any(|row| file.contains(row["label"].as_str().unwrap_or("?")) && row["id"] == id),
            "{rows:?}"
        );
    }
    // The certificate is before its key in the file, and its encoding gives it another ID.
    let Some(tool) = Tool::new() else { return };
    let read = |file: &str| fs::read(format!("{FILES}{file}")).expect("a file");
    tool.write("both.pem", [read("cert-ec-compressed.pem"), read("key-ec-explicit-p256.pem")].concat());
    tool.ok("key import both.pem");
    let rows = tool.rows("object list --json");
    assert!(rows.len() == 3 && rows.iter().all(|row| row["id"] == rows[0]["id"]), "{rows:?}");
    // The certificate is in the token before its key, and the key is imported once.
    for id in ["", "--id 07"] {
        let Some(tool) = Tool::new() else { return };
        tool.ok(&format!("cert import {FILES}cert-ec-compressed.pem {id}"));
        tool.ok(&format!("key import {FILES}key-ec-explicit-p256.pem"));
        tool.fails(4, &format!("key import {FILES}key-ec-explicit-p256.pem"));
        tool.ok(&format!("key import {FILES}key-ec-explicit-p256.pem --if-absent"));
        let rows = tool.rows("object list --json");
        assert!(rows.len() == 3 && rows.iter().all(|row| row["id"] == rows[0]["id"]), "{rows:?}");
    }
}

#[test]
fn keys_for_pss_sign_by_default_and_requests_get_certificates_or_the_reason() {
    let Some(tool) = Tool::new() else { return };
    tool.ok(&format!("key import {FILES}key-rsa-pss.pem --label ca"));
    tool.write("text", "text");
    tool.ok("sign text --label ca --out signature");
    tool.ok("verify text --label ca --signature signature");
    tool.ok("cert self-sign --label ca --subject CN=CA --ca --import --out ca.pem");
    tool.ok("ca init --label ca");
    tool.ok("crl --label ca --number 1 --out ca.crl");
    tool.ok("csr --label ca --subject CN=own --out own.csr");
    let issue = "cert issue --label ca --profile tls-server --san dns:a.example";
    // The key is that of the CA, so another CA signs.
    tool.ok("key generate --type ec:p256 --label other");
    tool.ok("cert self-sign --label other --subject CN=Other --ca --import --out other.pem");
    tool.ok("ca init --label other");
    for (request, out) in [("own.csr".to_owned(), "own"), (format!("{FILES}csr-rsa-pss.csr"), "pss")] {
        says(tool.fails(7, &format!("{issue} {request} --out no.pem")), "the public key is that of the CA");
        tool.ok(&format!("{} {request} --out {out}.pem", issue.replace("--label ca", "--label other")));
    }
    tool.write("two.csr", [tool.read("own.csr"), tool.read("own.csr")].concat());
    assert!(tool.fails(7, &format!("{issue} two.csr --out c.pem")).contains("several requests"));
    // The identifier of an extension has an arc of 128 bits.
    says(tool.ok(&format!("{issue} {FILES}csr-oid-2.25.csr --out odd.pem")), "an unknown extension");
    says(tool.fails(7, &format!("{issue} {FILES}csr-ec-explicit.csr --out c.pem")), "explicit parameters");
    tool.ok(&format!("{issue} {FILES}csr-rsassa-pss-gnutls.der --out gnutls.pem"));
    // The certificate has the point in the form that every program reads.
    tool.ok(&format!("{issue} {FILES}csr-ec-compressed.csr --out ec.pem"));
    if has("openssl") {
        tool.shell(
            "openssl x509 -in ec.pem -noout -pubkey | openssl pkey -pubin -noout -text | grep '^ *04:'",
        );
    }
}

#[test]
fn requests_with_every_hash_mask_and_salt_of_pss_are_issued_or_the_parameter_is_named() {
    let Some(tool) = with_openssl() else { return };
    tool.ok("key generate --type ec:p256 --label ca");
    tool.ok("cert self-sign --label ca --subject CN=CA --ca --import --out ca.pem");
    tool.ok("ca init --label ca");
    tool.shell("openssl genrsa -out rsa.pem 2048");
    for (hash, mask, salt, reason) in [
        ("sha256", "sha256", "20", ""),
        ("sha256", "sha1", "32", ""),
        ("sha384", "sha512", "0", ""),
        ("sha512", "sha512", "190", ""),
        ("sha1", "sha1", "20", "PSS with the hash 1.3.14.3.2.26"),
        ("sha256", "sha224", "32", "MGF1 with the hash 2.16.840.1.101.3.4.2.4"),
    ] {
        tool.shell(&format!(
            "openssl req -new -key rsa.pem -subj /CN=x -{hash} -sigopt rsa_padding_mode:pss -sigopt rsa_mgf1_md:{mask} \
             -sigopt rsa_pss_saltlen:{salt} -out pss.csr"
        ));
        let issue = "cert issue --label ca --profile tls-client pss.csr --out pss.pem --force";
        if reason.is_empty() {
            tool.ok(issue)
        } else {
            says(tool.fails(7, issue), reason);
            String::new()
        };
    }
    for (key, reason) in [("rsa:512", "an RSA key of 512 bits"), ("dsa", "the algorithm 1.2.840.10040.4.1")] {
        tool.shell(match key {
            "dsa" => "openssl dsaparam -out dsa.pem 2048; openssl gendsa -out weak.pem dsa.pem",
            _ => "openssl genrsa -out weak.pem 512",
        });
        tool.shell("openssl req -new -key weak.pem -subj /CN=x -out weak.csr");
        says(tool.fails(7, "cert issue --label ca --profile tls-client weak.csr --out weak.crt"), reason);
    }
}

#[test]
fn several_structures_in_one_der_file_and_padded_files_are_read() {
    let Some(tool) = with_openssl() else { return };
    tool.shell(
        "for name in one two; do
             openssl req -x509 -newkey rsa:2048 -noenc -keyout $name.key -subj /CN=$name -outform DER -out $name.der
         done
         cat one.der two.der > both.der
         (cat one.der; head -c 300 /dev/zero) > padded.der
         (cat one.der; echo x) > more.der
         openssl pkcs8 -topk8 -in one.key -nocrypt -outform DER -out key.der
         cat key.der one.der > pair.der",
    );
    says(tool.fails(8, "cert import more.der"), "has more bytes");
    tool.ok("cert import both.der");
    tool.ok("cert import padded.der --if-absent");
    let subjects: BTreeSet<_> =
        tool.rows("cert list --json").iter().map(|row| row["subject"].to_string()).collect();
    assert_eq!(subjects, ["\"CN=one\"", "\"CN=two\""].map(str::to_owned).into());
    tool.ok("key import pair.der --if-absent --label one");
    tool.signs("one");
}

#[test]
fn keys_wrapped_with_rsa_are_unwrapped_by_each_method() {
    let Some(tool) = with_openssl() else { return };
    tool.ok("key generate --type rsa:2048 --label rsa --usage wrap");
    tool.ok("key export --label rsa --out rsa.pem");
    tool.shell(
        "head -c 32 /dev/urandom > aes
         openssl pkeyutl -encrypt -pubin -inkey rsa.pem -pkeyopt rsa_padding_mode:oaep -in aes -out wrapped",
    );
    let unwrap = |file: &str, kind: &str, method: &str| {
        format!("key unwrap {file} --with rsa --type {kind} --method {method} --label {method}-{kind}")
    };
    tool.ok(&unwrap("wrapped", "aes", "rsa-oaep-sha1"));
    says(tool.fails(1, &unwrap("wrapped", "aes", "rsa-oaep")), "rsa-oaep-sha1, rsa-aes and rsa-aes-sha1");
    tool.ok("key generate --type ec:p256 --label ec --extractable");
    for method in ["rsa-aes", "rsa-aes-sha1"] {
        tool.ok(&format!("key wrap --label ec --with rsa --method {method} --out {method}"));
        tool.ok(&unwrap(method, "ec", method));
        tool.signs_with(&format!("{method}-ec"), "ec");
    }
    says(tool.fails(1, &unwrap("rsa-aes", "ec", "rsa-oaep")), "rsa-aes");
}

#[test]
fn private_json_web_keys_are_read() {
    let Some(tool) = Tool::new() else { return };
    // RFC 7517, A.2, and RFC 8037, A.1.
    let ec = r#"{"kty":"EC","crv":"P-256","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",
        "y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM","d":"870MB6gfuTJ4HtUnUvYMyJpr5eUZNP4Bk43bVdj3eAE",
        "use":"enc","kid":"one"}"#;
    let ed = r#"{"kty":"OKP","crv":"Ed25519","d":"nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A",
        "x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","kid":"two"}"#;
    tool.write("set.json", format!(r#"{{"keys":[{ec},{ed}]}}"#));
    tool.ok("key import set.json");
    tool.signs("one");
    tool.signs("two");
    tool.write("other.json", ed.replace("11qYAY", "11qYAZ"));
    says(tool.fails(8, "key import other.json"), "the public key of another private key");
    for (json, status, reason) in [
        (r#"{"kty":"oct","k":"AAAA"}"#, 7, "a secret key"),
        (r#"{"kty":"OKP","crv":"Ed25519","x":"AAAA"}"#, 7, "without its private key"),
        (r#"{"kty":"EC","crv":"P-999","x":"AA","y":"AA","d":"AA"}"#, 7, "curve"),
        (r#"{"kty":"EC","crv":"P-256","x":"AA","y":"AA","d":"!"}"#, 8, "not Base64url"),
        (r#"{"a":"b"}"#, 7, "of this type"),
        (r#"{"a":"#, 8, "damaged JSON Web Key"),
    ] {
        tool.write("odd.json", json);
        says(tool.fails(status, "key import odd.json"), reason);
    }
}
