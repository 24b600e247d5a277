//! What is certain without asking the agent: an `Init` function that succeeded before, the length
//! of a signature, and the end of a search.
//!
//! An `Init` function whose outcome is certain is not sent: it travels with the next call of its
//! session. It is certain if the same call succeeded in this session before, and the application
//! has changed no object and no login since.

use jeton_agent_wire::call::{Data, OutputRoom};
use jeton_agent_wire::{self as wire, Answer, Call, Malformed, Outcome};
use jeton_words::cipher::AeadScheme;
use jeton_words::operation::Signed;
use jeton_words::shape::Shape;
use jeton_words::token::Function;

use crate::answer_check::{MAX_LENGTH, can_fail};

/// What a session need not ask.
#[derive(Default)]
pub struct Certain {
    /// The calls that travel with the next one: their operations, and the calls.
    waiting: Vec<(usize, Vec<u8>)>,
    /// The `Init` function that succeeded last, for each operation.
    known: [Known; 6],
    /// The call of an `Init` function.
    call: Vec<u8>,
    /// The ciphers of the last message-based encryption and decryption that began.
    ciphers: [Option<AeadScheme>; 2],
    /// Whether the last signature that began is a one-time password.
    signs_password: bool,
    /// The state of the application in which the last search found its last object: then it has no
    /// memory at the agent.
    searched: Option<u64>,
}

/// An `Init` function that succeeded.
#[derive(Default)]
struct Known {
    call: Vec<u8>,
    /// The state of the application in which it succeeded.
    certainty: u64,
    /// The answer to a question for the length of the signature. The length of a signature can
    /// depend on the buffer.
    signature: Option<usize>,
}

/// The longest call that waits. [`wire::MAX_CALLS`] of them leave room in the first buffer of a
/// connection for a call with PINs or a key, so that these do not stay where the buffer was.
const LONGEST: usize = 512;

/// The position of the signature operation.
const SIGN: usize = 1;

/// The bit of an active search.
const SEARCH: u16 = 1 << 12;

/// The position of a message-based encryption. A decryption follows.
const MESSAGES: usize = 8;

/// Returns the position of the operation that an `Init` function starts, if it may travel later.
fn starts(function: Function) -> Option<usize> {
    match function {
        Function::C_DigestInit => Some(0),
        Function::C_SignInit => Some(SIGN),
        Function::C_VerifyInit => Some(2),
        Function::C_EncryptInit => Some(4),
        Function::C_DecryptInit => Some(5),
        _ => None,
    }
}

/// Returns the same for a call.
fn begins(call: &Call<'_>) -> Option<usize> {
    match call {
        Call::Refused { .. } | Call::Clear(_) => None,
        call => starts(call.function()),
    }
}

impl Certain {
    /// Returns the outcome of a call if it is certain. An `Init` function then waits for the next
    /// call. The end of a search is certain if it found its last object, and the session has no
    /// other operation. `certainty` changes whenever such a function may have another outcome, and
    /// `active` has a bit for each active operation.
    pub fn answer(&mut self, call: &Call<'_>, certainty: u64, active: u16) -> Option<Outcome<'static>> {
        if let Call::C_Sign { out: OutputRoom::Length, .. } = call {
            let (session, data, out) = ((), (), Data::default());
            let result = Signed::Bytes(self.known[SIGN].signature.filter(|_| self.waits(SIGN))?);
            return Some(Outcome::C_Sign { result, session, data, out });
        }
        if let Call::C_FindObjectsFinal { .. } = call {
            let is_alone = active == SEARCH && self.waiting.is_empty() && self.searched == Some(certainty);
            return is_alone.then_some(Outcome::C_FindObjectsFinal { result: (), session: () });
        }
        let operation = begins(call)?;
        self.call.clear();
        wire::append(call, &mut self.call).ok()?;
        let known = &self.known[operation];
        let is_free = active >> operation & 1 == 0 && !self.waits(operation);
        let holds = known.certainty == certainty && known.call == self.call;
        let fits = self.waiting.len() + 1 < wire::MAX_CALLS && self.call.len() <= LONGEST;
        if !is_free || !holds || !fits {
            return None;
        }
        self.waiting.push((operation, std::mem::take(&mut self.call)));
        self.note_form(call);
        let (result, session, mechanism, key) = ((), (), (), ());
        Some(match operation {
            0 => Outcome::C_DigestInit { result, session, mechanism },
            SIGN => Outcome::C_SignInit { result, session, mechanism, key },
            2 => Outcome::C_VerifyInit { result, session, mechanism, key },
            4 => Outcome::C_EncryptInit { result, session, mechanism, key },
            _ => Outcome::C_DecryptInit { result, session, mechanism, key },
        })
    }

    fn waits(&self, operation: usize) -> bool {
        self.waiting.iter().any(|(other, _)| *other == operation)
    }

    /// Returns the cipher of the active operation that a message-based function continues. `active`
    /// has a bit for each active operation.
    pub fn cipher(&self, function: Function, active: u16) -> Option<AeadScheme> {
        use Function as F;
        let direction = match function {
            F::C_EncryptMessage
            | F::C_EncryptMessageBegin
            | F::C_EncryptMessageNext
            | F::C_EncryptMessageEnd => 0,
            F::C_DecryptMessage
            | F::C_DecryptMessageBegin
            | F::C_DecryptMessageNext
            | F::C_DecryptMessageEnd => 1,
            _ => return None,
        };
        self.ciphers[direction].filter(|_| active >> (MESSAGES + direction) & 1 == 1)
    }

    /// Returns the calls that travel with the next one.
    pub fn waiting(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.waiting.iter().map(|(_, call)| &call[..])
    }

    /// Checks that the first answers are those of the calls that wait, up to the first one that
    /// failed. Returns the number of these calls.
    pub fn check(&self, answers: &[Answer<'_>]) -> Result<usize, Malformed> {
        let fits = self.waiting.iter().zip(answers).all(|((operation, _), answer)| match &answer.outcome {
            Ok(outcome) => outcome.function().and_then(starts) == Some(*operation),
            Err(error) => can_fail(*error),
        });
        Malformed::unless(fits).map(|()| self.waiting.len())
    }

    /// Checks that a signature has the form of its mechanism, and a question for its length only an
    /// answer that may be noted. A one-time password becomes a struct
    /// with pointers in the buffer of the caller, who looks for bytes there.
    pub fn check_signature(&self, call: &Call<'_>, answer: &Answer<'_>) -> Result<(), Malformed> {
        let Ok(Outcome::C_Sign { result, out, .. } | Outcome::C_SignFinal { result, out, .. }) =
            &answer.outcome
        else {
            return Ok(());
        };
        let asks = call.room() == Some(OutputRoom::Length);
        Malformed::unless(!asks || out.0.is_empty() && result.length() <= MAX_LENGTH)?;
        Malformed::unless(matches!(result, Signed::Password(_)) == (self.signs_password && !asks))
    }

    /// Notes the form of the signatures after a call that starts or restores an operation.
    fn note_form(&mut self, call: &Call<'_>) {
        match call {
            Call::C_SignInit { mechanism, .. } => self.signs_password = mechanism.info.shape == Shape::Otp,
            // The state of a one-time password cannot be saved.
            Call::C_SetOperationState { .. } => self.signs_password = false,
            _ => {}
        }
    }

    /// Forgets the calls that travel with the next one.
    pub fn drop_waiting(&mut self) {
        if let Some((_, call)) = self.waiting.drain(..).next_back() {
            // Its memory is for the next one.
            self.call = call;
        }
    }

    /// Notes that the call failed that waits at this position: another process changed the token.
    pub fn forget(&mut self, position: usize) {
        if let Some((operation, _)) = self.waiting.get(position) {
            self.known[*operation] = Known::default();
        }
    }

    /// Notes the answer to a call for which there was no certain one.
    pub fn note(&mut self, call: &Call<'_>, outcome: &Outcome<'_>, certainty: u64) {
        if let Some(operation) = begins(call) {
            let known = &mut self.known[operation];
            std::mem::swap(&mut known.call, &mut self.call);
            (known.certainty, known.signature) = (certainty, None);
        }
        self.note_form(call);
        match call {
            Call::C_FindObjectsInit { .. } => self.searched = None,
            Call::C_MessageEncryptInit { mechanism, .. } => self.ciphers[0] = mechanism.info.aead(),
            Call::C_MessageDecryptInit { mechanism, .. } => self.ciphers[1] = mechanism.info.aead(),
            _ => {}
        }
        if let (Call::C_FindObjects { out, .. }, Outcome::C_FindObjects { result, .. }) = (call, outcome)
            && (*result as u64) < *out
        {
            self.searched = Some(certainty);
        }
        if let (
            Call::C_Sign { out: OutputRoom::Length, .. },
            Outcome::C_Sign { result: Signed::Bytes(len), .. },
        ) = (call, outcome)
        {
            self.known[SIGN].signature = Some(*len);
        }
    }
}
