//! A cryptography bill of materials (CBOM): CycloneDX 1.6, "cryptographic-asset".

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::Key;
use crate::time::{date, seconds_of};

/// A key type: the start of its name, the primitive of CycloneDX, and the category of NIST for
/// attacks with a quantum computer (FIPS 203 to 205, and the definitions of the categories for
/// AES). 0 is no protection.
struct Family {
    name: &'static str,
    primitive: &'static str,
    quantum: Option<u8>,
}

const fn family(name: &'static str, primitive: &'static str, quantum: Option<u8>) -> Family {
    Family { name, primitive, quantum }
}

/// The first row whose name begins the name of a key type is its family.
const FAMILIES: [Family; 31] = [
    family("RSA", "pke", Some(0)),
    family("EC ", "signature", Some(0)),
    family("Ed", "signature", Some(0)),
    family("X25519", "key-agree", Some(0)),
    family("X448", "key-agree", Some(0)),
    family("DSA", "signature", Some(0)),
    family("DH", "key-agree", Some(0)),
    family("ML-DSA-44", "signature", Some(2)),
    family("ML-DSA-65", "signature", Some(3)),
    family("ML-DSA-87", "signature", Some(5)),
    family("MLDSA44-", "signature", Some(2)),
    family("MLDSA65-", "signature", Some(3)),
    family("MLDSA87-", "signature", Some(5)),
    family("ML-KEM-512", "kem", Some(1)),
    family("ML-KEM-768", "kem", Some(3)),
    family("ML-KEM-1024", "kem", Some(5)),
    family("SLH-DSA-SHA2-128", "signature", Some(1)),
    family("SLH-DSA-SHAKE-128", "signature", Some(1)),
    family("SLH-DSA-SHA2-192", "signature", Some(3)),
    family("SLH-DSA-SHAKE-192", "signature", Some(3)),
    family("SLH-DSA-SHA2-256", "signature", Some(5)),
    family("SLH-DSA-SHAKE-256", "signature", Some(5)),
    family("HSS", "signature", None),
    family("XMSS", "signature", None),
    family("AES 128", "block-cipher", Some(1)),
    family("AES 192", "block-cipher", Some(3)),
    family("AES 256", "block-cipher", Some(5)),
    family("triple DES", "block-cipher", Some(0)),
    family("ChaCha20", "stream-cipher", None),
    family("generic", "mac", None),
    family("", "unknown", None),
];

/// Returns the document. `now` is the time in seconds since 1970.
pub fn document(keys: &[Key], now: i64) -> Value {
    let algorithms: BTreeSet<_> = keys.iter().map(|key| &key.key_type[..]).collect();
    let materials = keys.iter().enumerate().map(|(index, key)| material(index, key, now));
    let components: Vec<_> = algorithms.into_iter().map(algorithm).chain(materials).collect();
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": date(now),
            "tools": { "components": [
                { "type": "application", "name": "jeton", "version": env!("CARGO_PKG_VERSION") }
            ] },
        },
        "components": components,
    })
}

fn algorithm(name: &str) -> Value {
    let family = FAMILIES.iter().find(|family| name.starts_with(family.name));
    let (primitive, quantum) = family.map_or(("unknown", None), |family| (family.primitive, family.quantum));
    let mut properties = json!({ "primitive": primitive });
    match name.split_once(' ') {
        Some(("EC", curve)) => properties["curve"] = curve.into(),
        Some((_, size)) => properties["parameterSetIdentifier"] = size.into(),
        None => {}
    }
    if let Some(quantum) = quantum {
        properties["nistQuantumSecurityLevel"] = quantum.into();
    }
    json!({
        "type": "cryptographic-asset",
        "bom-ref": reference(name),
        "name": name,
        "cryptoProperties": { "assetType": "algorithm", "algorithmProperties": properties },
    })
}

fn reference(algorithm: &str) -> String {
    format!("algorithm/{algorithm}")
}

fn material(index: usize, key: &Key, now: i64) -> Value {
    let kind = match key.class {
        "private" => "private-key",
        "public" => "public-key",
        other => other,
    };
    let time = |text: &Option<String>| text.as_deref().and_then(seconds_of);
    let state = match time(&key.start) {
        Some(start) if start > now => "pre-activation",
        _ if key.has_ended(now) => "deactivated",
        _ => "active",
    };
    let mut material = json!({
        "type": kind,
        "id": key.id,
        "state": state,
        "algorithmRef": reference(&key.key_type),
        "securedBy": { "mechanism": format!("PKCS#11 token {}", key.serial) },
    });
    let dates =
        [("creationDate", &key.created), ("activationDate", &key.start), ("expirationDate", &key.end)];
    for (name, value) in dates {
        if let Some(time) = time(value) {
            material[name] = date(time).into();
        }
    }
    let optional = [
        ("jeton:token", Some(key.token.clone())),
        ("jeton:uses-left", key.uses_left.map(|uses| uses.to_string())),
        ("jeton:last-use", key.last_use.clone()),
        ("jeton:certificate", key.certificate.clone()),
        ("jeton:certificate-end", key.certificate_end.clone()),
    ];
    let properties: Vec<_> = optional
        .into_iter()
        .filter_map(|(name, value)| value.map(|value| json!({ "name": name, "value": value })))
        .collect();
    json!({
        "type": "cryptographic-asset",
        "bom-ref": format!("key/{}/{index}", key.serial),
        "name": if key.label.is_empty() { &key.key_type } else { &key.label },
        "cryptoProperties": {
            "assetType": "related-crypto-material",
            "relatedCryptoMaterialProperties": material,
        },
        "properties": properties,
    })
}
