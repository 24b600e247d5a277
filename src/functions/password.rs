//! Keys from passwords (PKCS#11 3.2, "PKCS #5 PBKDF2 key generation").

use jeton_secret::Secret;

use super::cost::Cost;
use crate::error::{Error, Result, require};
use crate::id::{AttributeType as A, KeyType, ObjectClass};
use crate::mechanism::{Mechanism, Params};
use crate::object::attribute::{self, ObjectTypes};
use crate::object::policy::Rights;
use crate::object::template::Template;
use crate::object::value::number;
use crate::object::{Attributes, make};
use crate::token::ClientToken;

/// Maximum length of a generated key in bytes.
const MAX_LEN: usize = 4096;
/// Maximum number of iterations, summed over all blocks of output. It limits a call to a minute or
/// two.
const MAX_WORK: u64 = 1 << 26;

/// Generates the attributes of a key from a password. The template must name the key type.
pub(super) fn generate(
    token: &ClientToken,
    rights: Rights,
    mechanism: &Mechanism,
    template: &Template<'_>,
) -> Result<Attributes> {
    let key_type = template.bytes(A::KEY_TYPE).ok_or(Error::TemplateIncomplete)?;
    let key_type = KeyType(number(key_type)?);
    ObjectTypes::of(ObjectClass::SECRET_KEY, Some(key_type.0)).ok_or(Error::AttributeValueInvalid)?;
    let value = |len| {
        let len =
            usize::try_from(len).ok().filter(|len| *len <= MAX_LEN && attribute::len_fits(key_type, *len));
        stretch(token, &mechanism.params, len.ok_or(Error::KeySizeRange)?)
    };
    // "If the key type has a fixed length the CKA_VALUE_LEN attribute may be omitted". The
    // attribute rules contain that length as the default.
    make::generate_secret(template, key_type, mechanism.info.id, rights, value)
}

fn stretch(token: &ClientToken, params: &Params, len: usize) -> Result<Secret> {
    let Params::Pbkdf2 { hash, salt, iterations, password } = params else {
        return Err(Error::MechanismParamInvalid);
    };
    let blocks = len.div_ceil(hash.len()) as u64;
    require(blocks * u64::from(*iterations) <= MAX_WORK, Error::MechanismParamInvalid)?;
    let _permit = Cost::of_pbkdf2(blocks, *iterations, salt.len()).admit(token)?.wait();
    let mut out = Secret::zeroed(len);
    token.provider().macs.pbkdf2(*hash, &password.0, salt, *iterations, &mut out)?;
    Ok(out)
}
