//! Every reader refuses or reads a damaged file. No reader panics, or takes more time or memory
//! than its limits allow.

use base64ct::{Base64, Encoding};
use der::Encode;
use jeton_formats::{Error, Item, MAX_FILE, Password, PublicForm, Wanted, public_key, read, secret_key};
use pkcs5::pbes2::Parameters;
use zeroize::Zeroizing;

const SAMPLES: [(&str, &[u8]); 15] = [
    ("pkcs8.pem", include_bytes!("samples/pkcs8.pem")),
    ("encrypted.der", include_bytes!("samples/encrypted.der")),
    ("scrypt.der", include_bytes!("samples/scrypt.der")),
    ("pbes1.der", include_bytes!("samples/pbes1.der")),
    ("traditional.pem", include_bytes!("samples/traditional.pem")),
    ("sec1.der", include_bytes!("samples/sec1.der")),
    ("pkcs1.der", include_bytes!("samples/pkcs1.der")),
    ("cert.pem", include_bytes!("samples/cert.pem")),
    ("both.p12", include_bytes!("samples/both.p12")),
    ("legacy.p12", include_bytes!("samples/legacy.p12")),
    ("openssh", include_bytes!("samples/openssh")),
    ("openssh-rsa", include_bytes!("samples/openssh-rsa")),
    ("bind.private", include_bytes!("samples/bind.private")),
    ("jwk.json", include_bytes!("samples/jwk.json")),
    ("public.der", include_bytes!("samples/public.der")),
];

fn with_password(file: &[u8], password: Option<&str>) -> Result<usize, Error> {
    let mut ask = || password.map(|password| Zeroizing::new(password.to_owned()));
    read(file, Wanted::All, &mut Password::new(&mut ask)).map(|entries| entries.len())
}

#[test]
fn every_sample_is_read() {
    for (name, file) in SAMPLES {
        let entries = if name.ends_with("p12") { 2 } else { 1 };
        assert_eq!(with_password(file, Some("pw")), Ok(entries), "{name}");
    }
}

#[test]
fn an_encrypted_sample_needs_its_password() {
    for (name, file) in SAMPLES {
        let encrypted = [
            "encrypted.der",
            "scrypt.der",
            "pbes1.der",
            "traditional.pem",
            "both.p12",
            "legacy.p12",
            "openssh",
        ];
        if encrypted.contains(&name) {
            assert_eq!(with_password(file, None), Err(Error::PasswordMissing), "{name}");
            assert_eq!(with_password(file, Some("no")), Err(Error::PasswordWrong), "{name}");
        }
    }
}

#[test]
fn flipped_bits_and_cut_files_never_panic() {
    for (_, file) in SAMPLES {
        // Flips three bits of each byte, one at a time.
        for at in 0..file.len() {
            for bit in [0, 3, 7] {
                let mut damaged = file.to_vec();
                damaged[at] ^= 1 << bit;
                let _ = with_password(&damaged, Some("pw"));
            }
        }
        for length in (0..file.len()).step_by(3) {
            let _ = with_password(&file[..length], Some("pw"));
        }
    }
}

#[test]
fn damaged_public_keys_never_panic_in_any_form() {
    let file = include_bytes!("samples/public.der");
    for at in 0..file.len() {
        let mut damaged = file.to_vec();
        damaged[at] ^= 0x41;
        for form in [PublicForm::Pem, PublicForm::OpenSsh, PublicForm::Jwk, PublicForm::DnsKey(256)] {
            let _ = public_key(&damaged, form, "comment");
        }
    }
}

/// Each key alone asks for less than the limit.
#[test]
fn the_keys_of_a_file_share_its_limit_of_work() {
    let pem = |der: &[u8]| {
        let text = Base64::encode_string(der);
        let lines: Vec<_> = text.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
        format!(
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\n{}\n-----END ENCRYPTED PRIVATE KEY-----\n",
            lines.join("\n")
        )
    };
    // PBKDF2 has 1 iteration in the sample, which is replaced by 10,000,000.
    let cheap = include_bytes!("samples/encrypted.der");
    let costly = with_integer(cheap, &[2, 1, 1], &[2, 4, 0, 0x98, 0x96, 0x80]);
    let file = [pem(cheap), pem(cheap)].concat();
    assert_eq!(with_password(file.as_bytes(), Some("pw")), Ok(2));
    let file = [pem(cheap), pem(&costly)].concat();
    let read = with_password(file.as_bytes(), Some("pw"));
    assert!(matches!(read, Err(Error::Refused(_))), "{read:?}");
}

#[test]
fn a_file_cannot_ask_for_much_work() {
    // PBKDF2 has 1 iteration in the first file. In the second file scrypt's N is 2^4, which is
    // replaced by 2^30.
    let encrypted = include_bytes!("samples/encrypted.der");
    refused_before_the_password(&with_integer(encrypted, &[2, 1, 1], &[2, 4, 0x7f, 0xff, 0xff, 0xff]));
    let scrypt = include_bytes!("samples/scrypt.der");
    refused_before_the_password(&with_integer(scrypt, &[2, 1, 0x10], &[2, 4, 0x40, 0, 0, 0]));
    refused_before_the_password(&vec![b'x'; MAX_FILE + 1]);
}

#[test]
fn an_invalid_cost_of_scrypt_is_refused() {
    let scrypt = include_bytes!("samples/scrypt.der");
    for cost in [0, 1, 3] {
        let file = with_integer(scrypt, &[2, 1, 0x10], &[2, 1, cost]);
        assert!(matches!(with_password(&file, Some("pw")), Err(Error::Damaged(_))));
    }
}

#[test]
fn an_openssh_file_cannot_ask_for_much_work() {
    let text = std::str::from_utf8(include_bytes!("samples/openssh")).expect("text");
    let inner: String = text.lines().filter(|line| !line.starts_with('-')).collect();
    let mut blob = Base64::decode_vec(&inner).expect("Base64");
    // Three fields are before the number of rounds: the name of the method, the length of its
    // options, and a salt of 16 bytes with its length.
    let name = b"bcrypt";
    let at = blob.windows(name.len()).position(|window| window == name).expect("bcrypt") + name.len() + 24;
    let pem = |blob: &[u8]| {
        let encoded = Base64::encode_string(blob);
        let lines: Vec<_> = encoded.as_bytes().chunks(70).map(|line| String::from_utf8_lossy(line)).collect();
        let lines = lines.join("\n");
        format!("-----BEGIN OPENSSH PRIVATE KEY-----\n{lines}\n-----END OPENSSH PRIVATE KEY-----\n")
    };
    assert_eq!(with_password(pem(&blob).as_bytes(), Some("pw")), Ok(1));
    blob[at..at + 4].copy_from_slice(&1001_u32.to_be_bytes());
    refused_before_the_password(pem(&blob).as_bytes());
}

#[test]
fn a_pkcs12_file_cannot_ask_for_much_work() {
    // A key in an encrypted part. Together they ask for too many iterations.
    let read = with_password(&archive(&algorithm(1000), &algorithm(9_999_001)), Some("pw"));
    assert!(matches!(read, Err(Error::Refused(_))), "{read:?}");
    refused_before_the_password(&archive(&algorithm(10_000_001), &algorithm(1)));
    // An allowed number of iterations: decrypting the key fails, because its ciphertext is wrong.
    assert_eq!(
        with_password(&archive(&algorithm(1000), &algorithm(1000)), Some("pw")),
        Err(Error::PasswordWrong)
    );
}

fn refused_before_the_password(file: &[u8]) {
    let mut ask = || panic!("the password is not needed");
    assert!(matches!(read(file, Wanted::All, &mut Password::new(&mut ask)), Err(Error::Refused(_))));
}

/// Replaces an integer by one that is not shorter.
fn with_integer(der: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let at = der.windows(old.len()).position(|window| window == old).expect("the integer");
    let mut changed = [&der[..at], new, &der[at + old.len()..]].concat();
    // The sequences around the integer grow.
    for length in lengths_around(der, at) {
        changed[length] += (new.len() - old.len()) as u8;
    }
    changed
}

/// PBES2 with PBKDF2 and AES-256-CBC.
fn parameters(iterations: u32) -> Parameters {
    Parameters::generate_pbkdf2_sha256_aes256cbc(iterations, &[1; 16], [2; 16]).expect("parameters")
}

fn algorithm(iterations: u32) -> Vec<u8> {
    const PBES2: &[u8] = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x05\x0d";
    tlv(0x30, &[PBES2, &parameters(iterations).to_der().expect("DER")])
}

/// A PKCS #12 file without a MAC. Its only part is encrypted, and contains an encrypted key.
fn archive(part: &[u8], key: &[u8]) -> Vec<u8> {
    const DATA: &[u8] = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x01";
    const ENCRYPTED_DATA: &[u8] = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x06";
    const SHROUDED_KEY: &[u8] = b"\x06\x0b\x2a\x86\x48\x86\xf7\x0d\x01\x0c\x0a\x01\x02";
    let encrypted_key = tlv(0x30, &[key, &tlv(0x04, &[&[0; 32]])]);
    let bag = tlv(0x30, &[SHROUDED_KEY, &tlv(0xa0, &[&encrypted_key])]);
    let contents = tlv(0x30, &[&bag]);
    // A part that is refused needs no correct ciphertext.
    let ciphertext = parameters(1000).encrypt("pw", &contents).expect("a ciphertext");
    let content = tlv(0x30, &[DATA, part, &tlv(0x80, &[&ciphertext])]);
    let encrypted = tlv(0x30, &[&[2, 1, 0], &content]);
    let safe = tlv(0x30, &[&tlv(0x30, &[ENCRYPTED_DATA, &tlv(0xa0, &[&encrypted])])]);
    let safe = tlv(0x30, &[DATA, &tlv(0xa0, &[&tlv(0x04, &[&safe])])]);
    tlv(0x30, &[&[2, 1, 3], &safe])
}

fn tlv(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let inner = parts.concat();
    let length = inner.len();
    let header = match length {
        0..0x80 => vec![tag, length as u8],
        0x80..0x100 => vec![tag, 0x81, length as u8],
        _ => vec![tag, 0x82, (length >> 8) as u8, length as u8],
    };
    [header, inner].concat()
}

/// Returns the positions of the last length byte of each structure around the byte `at`.
fn lengths_around(der: &[u8], at: usize) -> Vec<usize> {
    let (mut places, mut start) = (Vec::new(), 0);
    while start < at && der[start] == 0x30 {
        let (header, length) = match der[start + 1] {
            0x81 => (3, usize::from(der[start + 2])),
            0x82 => (4, usize::from(der[start + 2]) << 8 | usize::from(der[start + 3])),
            length => (2, usize::from(length)),
        };
        assert!(start + header + length > at);
        places.push(start + header - 1);
        // The member that contains the byte `at` is the next structure.
        start += header;
        while start + 2 + usize::from(der[start + 1]) <= at {
            start += 2 + usize::from(der[start + 1]);
        }
    }
    places
}

#[test]
fn secret_keys_are_raw_or_hexadecimal() {
    let aes = [16, 24, 32];
    assert_eq!(secret_key(&[7; 32], &aes).expect("raw").as_slice(), [7; 32]);
    assert_eq!(secret_key(b"000102030405060708090a0b0c0d0e0f\n", &aes).expect("digits")[15], 15);
    assert!(secret_key(&[7; 31], &aes).is_err());
    assert!(secret_key(b"", &aes).is_err());
    // 32 digits are 16 bytes, not a key of 32 letters.
    assert_eq!(secret_key(&[b'0'; 32], &aes).expect("digits").len(), 16);
}

#[test]
fn an_rsa_key_of_openssh_gets_its_crt_exponents() {
    let mut none = || None;
    let entries = read(include_bytes!("samples/openssh-rsa"), Wanted::All, &mut Password::new(&mut none))
        .expect("a key");
    let Item::PrivateKey(key) = &entries[0].item else { panic!("a private key") };
    // PKCS #8 of 1024 bits with all eight integers has more than 600 bytes.
    assert!(key.len() > 600);
}
