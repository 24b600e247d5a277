//! Private keys as JSON Web Keys (RFC 7517, RFC 7518, 6; RFC 8037; RFC 9964), one or a set.

use base64ct::{Base64Url, Base64UrlUnpadded, Encoding};
use jeton_client::key_types::{self, KeyType};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use zeroize::Zeroizing;

use super::{Entry, Error, Item, keys};
use crate::keys::PrivateKey;

/// A key, or a set of keys. The members that this reader does not know are ignored.
#[derive(Deserialize)]
struct Jwk {
    keys: Option<Vec<Jwk>>,
    kty: Option<String>,
    kid: Option<String>,
    crv: Option<String>,
    alg: Option<String>,
    n: Option<Text>,
    e: Option<Text>,
    d: Option<Text>,
    p: Option<Text>,
    q: Option<Text>,
    dp: Option<Text>,
    dq: Option<Text>,
    qi: Option<Text>,
    x: Option<Text>,
    y: Option<Text>,
    #[serde(rename = "priv")]
    seed: Option<Text>,
    #[serde(rename = "pub")]
    public: Option<Text>,
    oth: Option<IgnoredAny>,
    ciphertext: Option<IgnoredAny>,
}

/// A number in Base64url, wiped when it is dropped.
struct Text(Zeroizing<String>);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from).map(|text| Self(Zeroizing::new(text)))
    }
}

type Bytes = Zeroizing<Vec<u8>>;

/// Returns whether a file is an object of JSON.
pub(crate) fn is(file: &[u8]) -> bool {
    file.trim_ascii_start().starts_with(b"{")
}

/// Reads the private keys of a file.
pub(crate) fn read(file: &[u8]) -> Result<Vec<Entry>, Error> {
    let jwk: Jwk = serde_json::from_slice(file).map_err(|_| Error::Damaged("JSON Web Key"))?;
    if jwk.ciphertext.is_some() {
        return Err(Error::Refused("an encrypted JSON Web Key is not read: decrypt it first"));
    }
    let all = match jwk.keys {
        Some(keys) => keys,
        None => vec![jwk],
    };
    all.iter().map(entry).collect()
}

fn entry(jwk: &Jwk) -> Result<Entry, Error> {
    const NOT_PRIVATE: Error =
        Error::Refused("a public JSON Web Key is not imported without its private key");
    let key = match jwk.kty.as_deref() {
        Some("RSA") if jwk.oth.is_some() => {
            return Err(Error::Refused("an RSA key of more than two primes is not supported"));
        }
        Some("RSA") if jwk.d.is_none() => return Err(NOT_PRIVATE),
        Some("RSA") => rsa(jwk)?,
        Some("EC" | "OKP") if jwk.d.is_none() => return Err(NOT_PRIVATE),
        Some("EC") => {
            let (curve, x, y) = (named(&jwk.crv, false)?, bytes(&jwk.x)?, bytes(&jwk.y)?);
            let point = [&[4], &x[..], &y[..]].concat();
            keys::on_curve(keys::identifier(curve.oid)?, &bytes(&jwk.d)?, Some(&point))
        }
        Some("OKP") => {
            let public = jwk.x.as_ref().map(|_| bytes(&jwk.x)).transpose()?;
            let public = public.as_ref().map(|public| public.as_slice());
            keys::seed(keys::identifier(named(&jwk.crv, false)?.oid)?, &bytes(&jwk.d)?, public)
        }
        Some("AKP") if jwk.seed.is_none() => return Err(NOT_PRIVATE),
        Some("AKP") => {
            let public = jwk.public.as_ref().map(|_| bytes(&jwk.public)).transpose()?;
            let public = public.as_ref().map(|public| public.as_slice());
            keys::lattice(keys::identifier(named(&jwk.alg, true)?.oid)?, &bytes(&jwk.seed)?, public)
        }
        Some("oct") => {
            return Err(Error::Refused(
                "the JSON Web Key is a secret key; import its bytes with --type aes or generic",
            ));
        }
        _ => return Err(Error::Refused("a JSON Web Key of this type is not supported: RSA, EC, OKP or AKP")),
    };
    Ok(Entry { name: jwk.kid.clone(), ..Entry::of(Item::PrivateKey(key)) })
}

/// RFC 7518, 6.3.2: the key has all numbers of the primes, or none.
fn rsa(jwk: &Jwk) -> Result<PrivateKey, Error> {
    let of_primes = [&jwk.p, &jwk.q, &jwk.dp, &jwk.dq, &jwk.qi];
    let has_none = of_primes.iter().all(|number| number.is_none());
    let all = [&jwk.n, &jwk.e, &jwk.d].into_iter().chain(of_primes);
    let number = |text: &Option<Text>| match text {
        None if has_none => Ok(Zeroizing::default()),
        text => bytes(text),
    };
    let parts = all.map(number).collect::<Result<Vec<Bytes>, _>>()?;
    let parts: Vec<&[u8]> = parts.iter().map(|part| part.as_slice()).collect();
    keys::rsa_integers(parts.try_into().map_err(|_| Error::Damaged("JSON Web Key"))?)
}

/// Returns the curve or the parameter set with this name.
fn named(name: &Option<String>, has_set: bool) -> Result<&'static KeyType, Error> {
    let row = name.as_ref().and_then(|name| key_types::ALL.iter().find(|row| row.name == name));
    row.filter(|row| row.set.is_some() == has_set)
        .ok_or(Error::Refused("the curve or the algorithm of the JSON Web Key is not supported"))
}

fn bytes(text: &Option<Text>) -> Result<Bytes, Error> {
    let text = text.as_ref().ok_or(Error::Damaged("JSON Web Key: a number is missing"))?;
    // RFC 7515, 2: there is no padding. Some programs write it, and then it is that of Base64url.
    let decode = if text.0.ends_with('=') { Base64Url::decode_vec } else { Base64UrlUnpadded::decode_vec };
    let decoded = decode(&text.0);
    decoded.map(Zeroizing::new).map_err(|_| Error::Damaged("JSON Web Key: a number is not Base64url"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ber::{self, SEQUENCE};

    #[test]
    fn a_number_has_the_padding_of_its_length_or_none() {
        for (text, number) in [
            ("AQAB", Some(3)),
            ("AQ", Some(1)),
            ("AQ==", Some(1)),
            ("AQ=", None),
            ("AQAB=", None),
            ("AQAB====", None),
        ] {
            let found = bytes(&Some(Text(Zeroizing::new(text.to_owned()))));
            assert_eq!(found.ok().map(|bytes| bytes.len()), number, "{text}");
        }
    }

    /// The numbers of an RSA key in PKCS #1, and the same numbers as a JSON Web Key.
    #[test]
    fn an_rsa_key_has_the_same_encoding_from_both_formats() {
        let der = include_bytes!("../tests/samples/pkcs1.der");
        let numbers = ber::members(der, SEQUENCE).expect("a key");
        let names = ["n", "e", "d", "p", "q", "dp", "dq", "qi"];
        let url = |number: &ber::Element<'_>| {
            let zeros = number.content.iter().take_while(|byte| **byte == 0).count();
            Base64UrlUnpadded::encode_string(&number.content[zeros..])
        };
        let json = |count: usize| {
            let members = names.iter().zip(&numbers[1..]).take(count);
            let members = members.map(|(name, number)| format!(",\"{name}\":\"{}\"", url(number)));
            format!("{{\"kty\":\"RSA\"{}}}", members.collect::<String>())
        };
        let key = |json: String| match read(json.as_bytes())?.remove(0).item {
            Item::PrivateKey(key) => Ok(key),
            _ => panic!("a private key"),
        };
        let Item::PrivateKey(wanted) = keys::private(der).expect("a key").item else {
            panic!("a private key")
        };
        assert_eq!(key(json(8)), Ok(wanted));
        assert!(key(json(3)).is_ok());
        assert_eq!(key(json(5)), Err(Error::Damaged("JSON Web Key: a number is missing")));
    }
}
