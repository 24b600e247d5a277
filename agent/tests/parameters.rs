//! What the parameter of each mechanism is, for the protocol.

use cryptoki_sys::CK_MECHANISM_TYPE;
use jeton::backend::{AeadScheme, CipherMode};
use jeton::id::MechanismType;
use jeton::mechanism::sp800_108::Kdf;
use jeton::mechanism::{self, Shape};
use jeton_agent_wire::Parameter;
use jeton_agent_wire::argument::Parameters;

/// The mechanisms of the core.
pub struct Known;

impl Parameters for Known {
    fn parameter(&self, mechanism: CK_MECHANISM_TYPE) -> Parameter {
        mechanism::find(MechanismType(mechanism)).map_or(Parameter::None, |row| of(row.shape))
    }
}

/// Returns all mechanisms with their parameters.
pub fn all() -> Vec<(u64, Parameter)> {
    mechanism::all().map(|row| (row.id.0, of(row.shape))).collect()
}

/// `abi/src/params` reads exactly these structs.
fn of(shape: Shape) -> Parameter {
    use Parameter as P;
    match shape {
        shape if !shape.has_parameter() => P::None,
        Shape::None => P::None,
        Shape::Pss
        | Shape::Gmac
        | Shape::Length
        | Shape::Key
        | Shape::Bit
        | Shape::Integer
        | Shape::Version
        | Shape::TlsMac => P::Plain,
        Shape::Cipher(mode) => match mode {
            CipherMode::Aead(AeadScheme::AesGcm) => P::Gcm,
            CipherMode::Aead(AeadScheme::AesCcm) => P::Ccm,
            CipherMode::Aead(AeadScheme::ChaCha20Poly1305) => P::Poly1305,
            CipherMode::ChaCha20 => P::ChaCha20,
            // An initialisation vector, or `CK_AES_CTR_PARAMS`, which has no pointer.
            _ => P::Plain,
        },
        Shape::Eddsa => P::Eddsa,
        Shape::SignContext => P::SignContext,
        Shape::HashSignContext => P::HashSignContext,
        Shape::Oaep => P::Oaep,
        Shape::RsaAesWrap => P::RsaAesWrap,
        Shape::Ecdh => P::Ecdh,
        Shape::EcdhAesWrap => P::EcdhAesWrap,
        Shape::Hkdf => P::Hkdf,
        Shape::Data => P::StringData,
        Shape::CbcData => P::CbcData,
        Shape::Otp => P::Otp,
        Shape::Sp800_108(Kdf::Feedback) => P::Sp800_108Feedback,
        Shape::Sp800_108(_) => P::Sp800_108,
        Shape::Pbkdf2 => P::Pbkdf2,
        Shape::TlsMaster => P::TlsMaster,
        Shape::Tls12Master => P::Tls12Master,
        Shape::Tls12ExtendedMaster => P::Tls12ExtendedMaster,
        Shape::TlsKeys => P::TlsKeys,
        Shape::Tls12Keys => P::Tls12Keys,
        Shape::Tls12SafeKeys => P::Tls12SafeKeys,
        Shape::TlsKdf => P::TlsKdf,
        Shape::TlsPrf => P::TlsPrf,
        Shape::IkePrf => P::IkePrf,
        Shape::Ike1Prf => P::Ike1Prf,
        Shape::Ike1Extended => P::Ike1Extended,
        Shape::Ike2PrfPlus => P::Ike2PrfPlus,
    }
}
