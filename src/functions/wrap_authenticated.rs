//! Wrapping and unwrapping with associated data (PKCS#11 3.2, `C_WrapKeyAuthenticated`,
//! `C_UnwrapKeyAuthenticated`). They work like `C_WrapKey` and `C_UnwrapKey` in [`super::wrap`],
//! but with an authenticated cipher. Its nonce and tag are in a message parameter.

use jeton_secret::Secret;

use super::Module;
use super::audit::Call;
use super::derive::check_form;
use super::wrap::{
    UNWRAPPING, WRAPPING, add_key, export_key, find_key, length_error, read_template, unwrap_error,
};
use crate::backend::Aead;
use crate::config::strict::check_aead;
use crate::error::{Error, Result, require};
use crate::id::{ObjectHandle, SessionHandle};
use crate::mechanism::Mechanism;
use crate::mechanism::field;
use crate::mechanism::flow::Nonce;
use crate::mechanism::message::{Generator, MessageParams};
use crate::object::make::Cut;
use crate::object::template::Template;
use crate::object::{Object, key};
use crate::session::nonce::Nonces;
use crate::session::operation::Output;
use crate::token::Token;

impl Module {
    /// `C_WrapKeyAuthenticated`. The data length in a parameter of CCM is ignored, because the key
    /// gives the length. Writes the nonce and the tag into the parameter. Returns the number of
    /// bytes written, or the length of the result for [`Output::Length`].
    #[allow(clippy::too_many_arguments, reason = "the specification's")]
    pub fn wrap_key_authenticated(
        &self,
        session: SessionHandle,
        mechanism: &Mechanism,
        params: &mut MessageParams,
        aad: &[u8],
        wrapping: ObjectHandle,
        key: ObjectHandle,
        out: Output<'_>,
    ) -> Result<usize> {
        self.record_call(
            session,
            Call::of("C_WrapKeyAuthenticated", Some(mechanism), &[wrapping, key]),
            |token, rights| {
                let wrapping = find_key(&token, rights, mechanism, wrapping, WRAPPING)?;
                let by = (mechanism, Nonce::of(params));
                let plain = export_key(&token, rights, by, &wrapping, key)?;
                let mut aead = cipher(&token, mechanism, params, &wrapping)?;
                let needed = plain.len();
                let Output::Buffer(out) = out else { return Ok(needed) };
                let place = out.get_mut(..needed).ok_or(Error::BufferTooSmall { needed })?;
                generate_nonce(&token, params)?;
                let (nonce, tag) = params.nonce_and_tag();
                aead.seal(nonce, aad, &plain, place, tag).map_err(length_error)?;
                Ok(needed)
            },
        )
    }

    /// Generates the nonce of `C_WrapKey` with `CK_GCM_WRAP_PARAMS` or `CK_CCM_WRAP_PARAMS` if the
    /// caller asks for one.
    pub fn wrapping_nonce(&self, session: SessionHandle, params: &mut MessageParams) -> Result<()> {
        let (token, _) = self.access(session)?;
        generate_nonce(&token, params)
    }

    /// `C_UnwrapKeyAuthenticated`
    #[allow(clippy::too_many_arguments, reason = "the specification's")]
    pub fn unwrap_key_authenticated(
        &self,
        session: SessionHandle,
        mechanism: &Mechanism,
        params: &mut MessageParams,
        aad: &[u8],
        unwrapping: ObjectHandle,
        wrapped: &[u8],
        template: &Template<'_>,
    ) -> Result<ObjectHandle> {
        self.record_call(
            session,
            Call::of("C_UnwrapKeyAuthenticated", Some(mechanism), &[unwrapping]),
            |token, rights| {
                let unwrapping = find_key(&token, rights, mechanism, unwrapping, UNWRAPPING)?;
                check_form(&token, mechanism, &unwrapping, params.tag().len())?;
                let attributes = read_template(&token, &unwrapping, template, rights)?;
                let mut aead = cipher(&token, mechanism, params, &unwrapping)?;
                let mut plain = Secret::try_zeroed(wrapped.len())?;
                aead.open(params.nonce(), aad, wrapped, params.tag(), &mut plain).map_err(unwrap_error)?;
                let attributes = add_key(&token, attributes, &plain, Cut::Not)?;
                token.insert(rights, session, attributes)
            },
        )
    }
}

/// Generates the nonce of one call. A counter would start again in each call and repeat the nonce.
/// Counters are therefore refused.
fn generate_nonce(token: &Token, params: &mut MessageParams) -> Result<()> {
    if let Generator::Counter | Generator::CounterXor = params.generator() {
        return Err(field::refused("ivGenerator, nonceGenerator: a counter would start again"));
    }
    Nonces::default().generate(token.provider().random, params)
}

/// Returns the cipher of the mechanism. Fails with `MechanismParamInvalid` if the parameter is for
/// another cipher, or too weak for the policy.
fn cipher(
    token: &Token,
    mechanism: &Mechanism,
    params: &MessageParams,
    key: &Object,
) -> Result<Box<dyn Aead>> {
    let scheme = mechanism.info.aead().ok_or(Error::MechanismInvalid)?;
    require(params.scheme() == scheme, Error::MechanismParamInvalid)?;
    if token.settings.is_strict() {
        check_aead(scheme, params.nonce().len(), params.tag().len())?;
    }
    token.provider().ciphers.aead(scheme, key::secret(key.attributes())?)
}
