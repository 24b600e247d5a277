//! The client and the agent have the same table of what the parameter of each mechanism is.

use jeton::backend::{AeadScheme, CipherMode};
use jeton::mechanism::sp800_108::Kdf;
use jeton::mechanism::{self, Shape};
use jeton_agent_wire::{self as wire, Parameter};

#[test]
fn the_table_of_parameters_agrees_with_the_mechanisms_of_the_token() {
    let expected: Vec<_> = mechanism::all().map(|row| (row.id, of(row.shape))).collect();
    assert!(expected.len() > 200);
    for (id, parameter) in expected {
        assert_eq!(wire::mechanism::parameter(id.0, None), parameter, "{id}");
    }
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
