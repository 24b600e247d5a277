//! The names of operations in words, for tables and plots.

/// Returns the name of an operation in words: `P-256 sign` for `sign/p256`.
pub fn operation(group: &str) -> String {
    let parts: Vec<_> = group.split('/').collect();
    match parts.as_slice() {
        ["sign", key] => format!("{} sign", key_name(key)),
        ["verify", key] => format!("{} verify", key_name(key)),
        ["generate", key] => match key.strip_suffix("-token") {
            Some(key) => format!("make {} (token)", key_name(key)),
            None => format!("make {}", key_name(key)),
        },
        ["kem", verb] => {
            let (verb, set) = verb.split_once('-').unwrap_or((verb, "768"));
            format!("ML-KEM-{set} {verb}")
        }
        ["aes-gcm", length] => format!("AES-256-GCM encrypt, {}", bytes(length)),
        ["aes-gcm-message", length] => format!("AES-256-GCM encrypt a message, {}", bytes(length)),
        ["aes-gcm-open", length] => format!("AES-256-GCM decrypt, {}", bytes(length)),
        ["chacha20-poly1305", length] => format!("ChaCha20-Poly1305 encrypt, {}", bytes(length)),
        ["chacha20-poly1305-open", length] => format!("ChaCha20-Poly1305 decrypt, {}", bytes(length)),
        ["sha256", length] => format!("SHA-256, {}", bytes(length)),
        ["sha512", length] => format!("SHA-512, {}", bytes(length)),
        ["hmac-sha256", length] => format!("HMAC-SHA-256, {}", bytes(length)),
        ["random", length] => format!("random, {}", bytes(length)),
        ["session", _] => "open and close a session".to_owned(),
        ["object", "attributes"] => "read five attributes".to_owned(),
        ["object", verb] => verb
            .split_once('-')
            .map_or_else(|| group.to_owned(), |(verb, home)| format!("{verb} a {home} object")),
        ["first-use", count] => format!("first use of a key among {}", number(count)),
        ["search", home, what, count] => {
            let what = match *what {
                "all" => "all",
                "id" => "one by ID",
                "label" => "one by label",
                _ => "one by class and ID",
            };
            format!("find {what} among {} {home} objects", number(count))
        }
        ["start", "login", count] => format!("start and log in, {} objects", number(count)),
        ["start", what, count] => format!("start and {what}, {} objects", number(count)),
        ["threads", key, "1"] => format!("{} sign, 1 thread", key_name(key)),
        ["threads", key, count] => format!("{} sign, {count} threads", key_name(key)),
        _ => group.to_owned(),
    }
}

fn key_name(key: &str) -> String {
    const NAMES: [(&str, &str); 18] = [
        ("p256", "P-256"),
        ("p384", "P-384"),
        ("p521", "P-521"),
        ("ed25519", "Ed25519"),
        ("rsa2048", "RSA-2048"),
        ("rsa3072", "RSA-3072"),
        ("rsa4096", "RSA-4096"),
        ("mldsa44", "ML-DSA-44"),
        ("mldsa65", "ML-DSA-65"),
        ("mldsa87", "ML-DSA-87"),
        ("mlkem512", "ML-KEM-512"),
        ("mlkem768", "ML-KEM-768"),
        ("mlkem1024", "ML-KEM-1024"),
        ("slhdsa128f", "SLH-DSA-128f"),
        ("slhdsa128s", "SLH-DSA-128s"),
        ("aes256", "AES-256"),
        ("-pkcs", " PKCS #1"),
        ("-pss", " PSS"),
    ];
    NAMES.iter().fold(key.to_owned(), |name, (short, long)| name.replace(short, long))
}

fn bytes(length: &str) -> String {
    match length.parse::<u64>() {
        Ok(length) if length >= 1024 => format!("{} KiB", length / 1024),
        _ => format!("{length} bytes"),
    }
}

fn number(count: &str) -> String {
    count.parse().map_or_else(|_| count.to_owned(), thousands)
}

pub fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
