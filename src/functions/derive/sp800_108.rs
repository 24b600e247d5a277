//! SP 800-108: one or more keys from a pseudo-random function (PKCS#11 3.2, "SP800-108 Key
//! Derivation").

use jeton_secret::Secret;

use super::guard::Guard;
use super::{Additional, Derived, Work, check_received, parse_len, prf_len, prf_scheme};
use crate::backend::MacScheme;
use crate::error::{Error, Result};
use crate::id::{AttributeType as A, KeyType, ObjectHandle};
use crate::mechanism::field;
use crate::mechanism::sp800_108::{Field, Kdf};
use crate::mechanism::{MacFunction, Params};
use crate::object::make::Cut;
use crate::object::template::Template;
use crate::object::{Attributes, make};

impl Work<'_> {
    /// Derives the key of the call and the keys of the parameter. Creates all of them or none of
    /// them.
    pub(super) fn sp800_108(
        &self,
        kdf: Kdf,
        template: &Template<'_>,
        more: &mut [Additional<'_>],
    ) -> Result<Derived> {
        let Params::Sp800_108 { prf, fields, iv } = &self.mechanism.params else {
            return Err(Error::MechanismParamInvalid);
        };
        // "for an AES-CMAC PRF the base key must be of type CKK_AES"
        if *prf == MacFunction::AesCmac && self.base.key_type() != Some(KeyType::AES) {
            return Err(Error::KeyTypeInconsistent);
        }
        let guard = self.guard(template)?.with_any_history();
        let mut keys = vec![self.read_request(template, &guard)?];
        for additional in more.iter_mut() {
            let requested = self.read_request(&additional.template, &guard);
            // "Deriving Additional Keys": if the call fails because of the template of an
            // additional key, the handle of this key is set to 0.
            keys.push(requested.inspect_err(|_| additional.key = Some(ObjectHandle(0)))?);
        }
        let scheme = prf_scheme(*prf)?;
        let lens: Vec<_> = keys.iter().map(|(_, len)| *len).collect();
        let values = {
            let _permit = self.admit(lens.iter().sum())?;
            Pseudorandom { work: self, scheme, fields, iv }.keys(kdf, &lens)?
        };
        let templates = std::iter::once(template).chain(more.iter().map(|additional| &additional.template));
        let put = |(((mut attributes, len), value), template)| {
            guard.mark(&mut attributes, template, len, len)?;
            let attributes = make::put_secret(attributes, value, Cut::Not)?;
            check_received(&attributes).map(|()| attributes)
        };
        let whole = keys.into_iter().zip(&values).zip(templates).map(put).collect::<Result<_>>()?;
        let handles = self.token.insert_list(self.rights, self.session, whole)?;
        for (additional, handle) in more.iter_mut().zip(&handles[1..]) {
            additional.key = Some(*handle);
        }
        Ok(Derived::Key(handles[0]))
    }

    /// Returns the attributes that a template gives a key, and the length of the key.
    fn read_request(&self, template: &Template<'_>, guard: &Guard<'_>) -> Result<(Attributes, usize)> {
        // "Key Derivation Attribute Rules": a flag that the template omits is taken from the base
        // key. A flag of the other keys counts too.
        let mut flags = guard.flags();
        flags.extend([(A::SENSITIVE, guard.sensitive), (A::EXTRACTABLE, guard.extractable)]);
        let template = guard.add_flags(template, &flags);
        let mut attributes = self.receive(&template, guard, KeyType::GENERIC_SECRET)?;
        guard.bind(&mut attributes)?;
        let len = parse_len(attributes.number(A::VALUE_LEN))?.ok_or(Error::TemplateIncomplete)?;
        if make::fits(&attributes, len) { Ok((attributes, len)) } else { Err(Error::KeySizeRange) }
    }
}

/// A pseudo-random function (PRF) with its input.
struct Pseudorandom<'a> {
    work: &'a Work<'a>,
    scheme: MacScheme,
    fields: &'a [Field],
    iv: &'a [u8],
}

/// Lengths in bits: of the derived keys, and of all PRF output for them.
#[derive(Clone, Copy)]
struct Lengths {
    keys: u64,
    segments: u64,
}

impl Pseudorandom<'_> {
    /// Derives keys of these lengths. "Deriving Additional Keys": two keys never use the same PRF
    /// output.
    fn keys(&self, kdf: Kdf, lens: &[usize]) -> Result<Vec<Secret>> {
        let block = prf_len(&self.scheme);
        let bits = |bytes: usize| bytes as u64 * 8;
        let segments = lens.iter().map(|len| len.next_multiple_of(block)).sum();
        let lengths = Lengths { keys: bits(lens.iter().sum()), segments: bits(segments) };
        let mut variable = match kdf {
            Kdf::Counter => Secret::default(),
            Kdf::Feedback => self.iv.into(),
            // A(0)
            Kdf::DoublePipeline => self.input(None, lengths)?,
        };
        let mut counter = 0;
        let mut made = Vec::with_capacity(lens.len());
        for len in lens {
            let mut value = Secret::default();
            while value.len() < *len {
                counter += 1;
                if kdf == Kdf::DoublePipeline {
                    variable = self.apply(&variable)?;
                }
                let segment = self.apply(&self.input(Some((&variable, counter)), lengths)?)?;
                value.extend(&segment)?;
                if kdf == Kdf::Feedback {
                    variable = segment;
                }
            }
            made.push(value[..*len].into());
        }
        Ok(made)
    }

    /// Returns the input of an iteration. If `iteration` is `None`, returns A(0) of the double
    /// pipeline, which has no variable and no counter.
    fn input(&self, iteration: Option<(&Secret, u64)>, lengths: Lengths) -> Result<Secret> {
        let mut input = Secret::default();
        for field in self.fields {
            match (field, iteration) {
                (Field::Iteration(None), Some((variable, _))) => input.extend(variable)?,
                (Field::Iteration(Some(number)) | Field::Counter(number), Some((_, counter))) => {
                    // SP 800-108, 4: the size of the counter limits the number of iterations.
                    input.extend(&number.encode(counter).ok_or(Error::KeySizeRange)?)?;
                }
                (Field::Iteration(_) | Field::Counter(_), None) => {}
                (Field::Length { segments, number }, _) => {
                    let length = if *segments { lengths.segments } else { lengths.keys };
                    let encoded = number.encode(length);
                    input.extend(&encoded.ok_or_else(|| field::refused("pDataParams: ulWidthInBits"))?)?;
                }
                (Field::Bytes(bytes), _) => input.extend(bytes)?,
                (Field::Key(handle), _) => input.extend(&self.work.other(*handle)?)?,
            }
        }
        Ok(input)
    }

    fn apply(&self, input: &[u8]) -> Result<Secret> {
        self.work.provider().mac(&self.scheme, self.work.value()?, &[input])
    }
}
