//! OpenSSH private keys (`openssh-key-v1`).

use crypto_bigint::{BoxedUint, NonZero};
use jeton_client::key_types::ED25519;
use ssh_key::private::{EcdsaKeypair, KeypairData, RsaKeypair};
use ssh_key::{Kdf, Mpint, PrivateKey as SshKey};
use zeroize::Zeroizing;

use super::error::NO_DSA;
use super::{Error, Password, keys};
use crate::keys::PrivateKey;
use crate::public::SSH;

/// The longest integer of a key in bytes. The time of [`crt_exponent`] grows with its square.
const MAX_INTEGER: usize = 4096;
/// The largest number of rounds of bcrypt that all keys of a file may ask for. They take about ten
/// seconds.
const MAX_ROUNDS: u64 = 1000;

pub(crate) fn read(bytes: &[u8], password: &mut Password<'_>) -> Result<(PrivateKey, String), Error> {
    let mut key = SshKey::from_bytes(bytes).map_err(|error| match error {
        ssh_key::Error::Encoding(ssh_key::encoding::Error::Label(_)) => {
            Error::Refused("the OpenSSH key has a cipher or a type that is not supported")
        }
        // With the feature `ed25519`, the crate compares the public key with that of the seed.
        ssh_key::Error::Crypto => Error::Damaged("OpenSSH key: it has the public key of another private key"),
        _ => Error::Damaged("OpenSSH key"),
    })?;
    if key.is_encrypted() {
        if matches!(key.kdf(), Kdf::Bcrypt { rounds, .. } if !password.count((*rounds).into(), MAX_ROUNDS)) {
            return Err(Error::Refused("the file asks for more than 1,000 rounds of bcrypt to decrypt it"));
        }
        key = key.decrypt(password.get()?).map_err(|_| Error::PasswordWrong)?;
    }
    let comment = String::from_utf8_lossy(key.comment().as_bytes()).into_owned();
    let key = match key.key_data() {
        KeypairData::Rsa(pair) => rsa(pair),
        KeypairData::Ecdsa(pair) => ecdsa(pair),
        KeypairData::Ed25519(pair) => {
            let seed = Zeroizing::new(pair.private.to_bytes());
            Ok(keys::seed(keys::identifier(ED25519)?, seed.as_slice(), Some(&pair.public.0)))
        }
        KeypairData::Dsa(_) => Err(NO_DSA),
        _ => Err(Error::Refused("only RSA, ECDSA and Ed25519 keys of OpenSSH can be imported")),
    };
    Ok((key?, comment))
}

fn ecdsa(pair: &EcdsaKeypair) -> Result<PrivateKey, Error> {
    let curve = SSH.iter().find(|(curve, _)| *curve == pair.curve());
    let (_, oid) = curve.ok_or(Error::Damaged("OpenSSH key"))?;
    let point = pair.public_key_bytes();
    Ok(keys::on_curve(keys::identifier(oid)?, pair.private_key_bytes(), Some(point)))
}

fn rsa(pair: &RsaKeypair) -> Result<PrivateKey, Error> {
    let (public, private) = (pair.public(), pair.private());
    let (d, p, q) = (part(private.d())?, part(private.p())?, part(private.q())?);
    let (dp, dq) = (crt_exponent(d, p)?, crt_exponent(d, q)?);
    keys::rsa_integers([part(public.n())?, part(public.e())?, d, p, q, &dp, &dq, part(private.iqmp())?])
}

fn part(integer: &Mpint) -> Result<&[u8], Error> {
    let part = integer.as_positive_bytes().filter(|bytes| bytes.len() <= MAX_INTEGER);
    part.ok_or(Error::Damaged("OpenSSH key"))
}

/// Computes d mod (prime - 1).
fn crt_exponent(d: &[u8], prime: &[u8]) -> Result<Zeroizing<Vec<u8>>, Error> {
    let damaged = || Error::Damaged("OpenSSH key");
    let bits = u32::try_from(8 * d.len().max(prime.len())).map_err(|_| damaged())?;
    let read = |bytes| BoxedUint::from_be_slice(bytes, bits).map_err(|_| damaged());
    let below = read(prime)?.wrapping_sub(BoxedUint::one_with_precision(bits));
    let below = Option::<NonZero<BoxedUint>>::from(NonZero::new(below)).ok_or_else(damaged)?;
    Ok(Zeroizing::new(read(d)?.rem(&below).to_be_bytes().to_vec()))
}
