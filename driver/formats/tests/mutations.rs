//! Every reader refuses or reads a damaged file. None panics, and none takes more time or memory
//! than its limits.

use jeton_formats::{Error, Item, MAX_FILE, Password, PublicForm, public_key, read, secret_key};
use zeroize::Zeroizing;

const SAMPLES: [(&str, &[u8]); 12] = [
    ("pkcs8.pem", include_bytes!("samples/pkcs8.pem")),
    ("encrypted.der", include_bytes!("samples/encrypted.der")),
    ("scrypt.der", include_bytes!("samples/scrypt.der")),
    ("sec1.der", include_bytes!("samples/sec1.der")),
    ("pkcs1.der", include_bytes!("samples/pkcs1.der")),
    ("cert.pem", include_bytes!("samples/cert.pem")),
    ("both.p12", include_bytes!("samples/both.p12")),
    ("legacy.p12", include_bytes!("samples/legacy.p12")),
    ("openssh", include_bytes!("samples/openssh")),
    ("openssh-rsa", include_bytes!("samples/openssh-rsa")),
    ("bind.private", include_bytes!("samples/bind.private")),
    ("public.der", include_bytes!("samples/public.der")),
];

fn with_password(file: &[u8], password: Option<&str>) -> Result<usize, Error> {
    let mut ask = || password.map(|password| Zeroizing::new(password.to_owned()));
    read(file, &mut Password::new(&mut ask)).map(|entries| entries.len())
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
        if ["encrypted.der", "scrypt.der", "both.p12", "legacy.p12", "openssh"].contains(&name) {
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
fn damaged_public_keys_are_refused_in_every_form() {
    let file = include_bytes!("samples/public.der");
    for at in 0..file.len() {
        let mut damaged = file.to_vec();
        damaged[at] ^= 0x41;
        for form in [PublicForm::Pem, PublicForm::OpenSsh, PublicForm::Jwk, PublicForm::DnsKey(256)] {
            let _ = public_key(&damaged, form, "comment");
        }
    }
}

#[test]
fn a_file_cannot_ask_for_much_work() {
    // The count of PBKDF2 is the integer 1 after the salt of 8 bytes or 16.
    let encrypted = include_bytes!("samples/encrypted.der");
    let mut ask = || panic!("the password is not needed");
    let at = encrypted.windows(3).position(|window| window == [2, 1, 1]).expect("the count");
    let mut huge = encrypted[..at].to_vec();
    huge.extend([2, 4, 0x7f, 0xff, 0xff, 0xff]);
    huge.extend(&encrypted[at + 3..]);
    // The sequences around it grow by 3 bytes.
    for length in lengths_around(encrypted, at) {
        huge[length] += 3;
    }
    let result = read(&huge, &mut Password::new(&mut ask));
    assert!(matches!(result, Err(Error::Refused(_))));
    assert!(matches!(with_password(&vec![b'x'; MAX_FILE + 1], None), Err(Error::Refused(_))));
}

/// Returns the places of the length bytes of the structures that hold the byte `at`.
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
        // The first member that reaches over `at` is the next structure.
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
    let entries = read(include_bytes!("samples/openssh-rsa"), &mut Password::new(&mut none)).expect("a key");
    let Item::PrivateKey(key) = &entries[0].item else { panic!("a private key") };
    // PKCS #8 of 1024 bits with all eight integers has more than 600 bytes.
    assert!(key.len() > 600);
}
