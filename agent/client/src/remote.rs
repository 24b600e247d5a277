//! The token of this process: each function is a call at the agent.
//!
//! The agent is not trusted: what it answers fits the call, or the call fails. So no output is
//! longer than its buffer, and nothing is written before all of it fits.

use std::borrow::Cow;
use std::convert::Infallible;
use std::time::Instant;

use jeton_agent_wire::call::{Asked, Data, Found, Further, Here, MAX_HANDLES, OutputRoom};
#[cfg(feature = "split")]
use jeton_agent_wire::split::{Ask, Told as SplitTold};
use jeton_agent_wire::{Call, Malformed, Outcome};
use jeton_secret::Secret;
use jeton_words::asynchronous::{AsyncFunction, Completed, Started};
use jeton_words::attribute::ULONG;
use jeton_words::bounded::List;
use jeton_words::cipher::AeadScheme;
use jeton_words::derive::{Additional, Derived};
use jeton_words::error::{Error, Result};
use jeton_words::general::Threads;
use jeton_words::id::{MechanismType, ObjectHandle, SessionHandle, SlotId};
use jeton_words::mechanism::Mechanism;
use jeton_words::message::MessageParams;
use jeton_words::operation::{OneTimePassword, Output, Signed};
use jeton_words::session::SessionInfo;
use jeton_words::slot::{MechanismInfo, SlotInfo, TokenInfo};
use jeton_words::template::Template;
use jeton_words::token::{Attributes, Function, Token};
use jeton_words::{argument, functions};
use serde_bytes::Bytes;

use crate::answer_check::{MAX_LENGTH, derives};
use crate::attribute_numbers::Sent;
use crate::attributes;
use crate::once::{Application, Taken};

/// The token that an agent has.
#[derive(Default)]
pub struct Remote(Application);

#[cfg(feature = "split")]
impl Remote {
    /// Returns whether `C_Initialize` succeeded.
    pub fn is_started(&self) -> bool {
        self.0.pool.is_open()
    }

    /// Returns whether the agent answers.
    pub fn is_answered(&self) -> bool {
        self.0.is_answered()
    }

    /// Asks for a step of a split key: see [`Application::ask`].
    pub fn ask<T>(
        &self,
        session: SessionHandle,
        ask: Ask<'_>,
        end: Instant,
        take: impl FnOnce(SplitTold<'_>) -> Taken<T>,
    ) -> Result<T> {
        self.0.ask(session, ask, end, take)
    }
}

/// Where the results of a call go.
#[derive(Default)]
struct Places<'a> {
    output: Place<'a>,
    message: Option<&'a mut MessageParams>,
}

#[derive(Default)]
enum Place<'a> {
    #[default]
    None,
    Buffer(&'a mut [u8]),
}

/// Makes the argument of a message from that of the trait, by its kind.
macro_rules! sent {
    (Session $given:ident) => {{
        let _ = $given;
        Here
    }};
    (Label $given:ident) => {
        *$given
    };
    (Pin $given:ident) => {
        short($given)
    };
    (Bytes $given:ident) => {
        Bytes::new($given)
    };
    (Signature $given:ident) => {
        short($given)
    };
    (Fill $given:ident) => {
        $given.len() as u64
    };
    (Output $given:ident) => {
        match &$given {
            Output::Length => OutputRoom::Length,
            Output::Buffer(buffer) => OutputRoom::Bytes(buffer.len() as u64),
        }
    };
    (Template $given:ident) => {
        $given.template()
    };
    (Mechanism $given:ident) => {
        Cow::Borrowed($given)
    };
    (CryptMechanism $given:ident) => {
        Cow::Owned(Mechanism { info: $given.info, params: $given.params.copied()? })
    };
    (Message $given:ident) => {
        $given.clone()
    };
    (MaybeMessage $given:ident) => {
        $given.as_deref().cloned()
    };
    ($kind:ident $given:ident) => {
        $given
    };
}

/// The greatest length of a PIN or a signature that travels whole.
const MAX_SHORT: usize = 1 << 17;

/// Returns the bytes, cut if they are longer than any PIN or signature: the function refuses them
/// by their length, so that the rest need not travel.
fn short(given: &[u8]) -> &Bytes {
    Bytes::new(&given[..given.len().min(MAX_SHORT + 1)])
}

/// Returns the argument for a message by its kind, and by its name.
macro_rules! named {
    (signature Bytes $given:ident) => {
        sent!(Signature $given)
    };
    ($name:ident $kind:ident $given:ident) => {
        sent!($kind $given)
    };
}

/// Prepares an argument for a message, by its kind.
macro_rules! prepare {
    (Template $given:ident) => {
        let $given = Sent::<ULONG>::new($given);
    };
    ($kind:ident $given:ident) => {};
}

/// Keeps the place of a result, by the kind of its argument.
macro_rules! keep {
    ($places:ident Fill $given:ident) => {
        $places.output = Place::Buffer($given)
    };
    ($places:ident Output $given:ident) => {
        if let Output::Buffer(buffer) = $given {
            $places.output = Place::Buffer(buffer);
        }
    };
    ($places:ident Message $given:ident) => {
        $places.message = Some($given)
    };
    ($places:ident MaybeMessage $given:ident) => {
        $places.message = $given
    };
    ($places:ident $kind:ident $given:ident) => {};
}

/// Checks that what the agent wrote fits, by the kind of the argument.
macro_rules! check {
    ($places:ident $result:ident Fill $written:ident) => {
        $places.check_filled(&$written)
    };
    ($places:ident $result:ident Output $written:ident) => {
        $places.check_output(&$written, &$result)
    };
    ($places:ident $result:ident Message $written:ident) => {
        $places.check_message(Some(&$written))
    };
    ($places:ident $result:ident MaybeMessage $written:ident) => {
        $places.check_message($written.as_ref())
    };
    ($places:ident $result:ident $kind:ident $written:ident) => {
        Taken::Ok(())
    };
}

/// Writes what fits, by the kind of the argument.
macro_rules! write {
    ($places:ident Fill $written:ident) => {
        $places.write(&$written)
    };
    ($places:ident Output $written:ident) => {
        $places.write(&$written)
    };
    ($places:ident Message $written:ident) => {
        $places.write_message(Some(&$written))
    };
    ($places:ident MaybeMessage $written:ident) => {
        $places.write_message($written.as_ref())
    };
    ($places:ident $kind:ident $written:ident) => {
        let () = $written;
    };
}

/// Carries a call out, in its session if it has one.
macro_rules! carry_out {
    ($remote:ident $call:ident $take:ident $session:ident: Session $(, $($rest:tt)*)?) => {
        $remote.0.call_in($session, &$call, $take)
    };
    ($remote:ident $call:ident $take:ident $($rest:tt)*) => {
        $remote.0.call(&$call, $take)
    };
}

macro_rules! method {
    (C_OpenSession $method:ident($($argument:ident: $kind:ident),*) -> $answer:ty) => {
        fn $method(&self, $($argument: argument!($kind)),*) -> Result<$answer> {
            self.0.open($($argument),*)
        }
    };
    (C_CloseSession $method:ident($session:ident: Session) -> $answer:ty) => {
        fn $method(&self, $session: SessionHandle) -> Result<$answer> {
            self.0.close($session)
        }
    };
    (C_CloseAllSessions $method:ident($slot:ident: Slot) -> $answer:ty) => {
        fn $method(&self, $slot: SlotId) -> Result<$answer> {
            self.0.close_all($slot)
        }
    };
    (C_FindObjects $method:ident($session:ident: Session, $out:ident: Handles) -> $answer:ty) => {
        fn $method(&self, $session: SessionHandle, $out: argument!(Handles)) -> Result<$answer> {
            self.find_more($session, $out, Instant::now())
        }
    };
    (C_Logout $method:ident($session:ident: Session) -> $answer:ty) => {
        fn $method(&self, $session: SessionHandle) -> Result<$answer> {
            self.0.log_out($session)
        }
    };
    ($function:ident $method:ident($($argument:ident: $kind:ident),*) -> $answer:ty) => {
        fn $method(&self, $($argument: argument!($kind)),*) -> Result<$answer> {
            $(prepare!($kind $argument);)*
            let call = Call::$function { $($argument: named!($argument $kind $argument)),* };
            #[allow(unused_mut, reason = "not every function writes to its arguments")]
            let mut places = Places::default();
            $(keep!(places $kind $argument);)*
            let take = |outcome: Outcome<'_>| match outcome {
                Outcome::$function { result, $($argument),* } => {
                    let _ = &places;
                    $(check!(places result $kind $argument)?;)*
                    $(write!(places $kind $argument);)*
                    Ok(result)
                }
                _ => Err(Malformed),
            };
            carry_out!(self call take $($argument: $kind),*)
        }
    };
}

macro_rules! token {
    ($($function:ident $method:ident($($argument:ident: $kind:ident),*) -> $answer:ty;)*) => {
        impl Token for Remote {
            const BATCH: usize = MAX_HANDLES;

            fn start(&self, parameters: Option<&str>, threads: Threads) -> Result<()> {
                self.0.pool.start(parameters, threads)
            }

            fn stop(&self) -> Result<()> {
                self.0.end();
                Ok(())
            }

            fn refused(&self, session: SessionHandle, function: Function, error: Error) -> Error {
                let call = Call::Refused { function, error };
                match self.0.call_in(session, &call, |_| Err::<Infallible, _>(Malformed)) {
                    Err(error) => error,
                    Ok(never) => match never {},
                }
            }

            fn clear(&self, session: SessionHandle, function: Function) -> Result<()> {
                self.0.call_in(session, &Call::Clear(function), |outcome| match outcome {
                    Outcome::Cleared => Ok(()),
                    _ => Err(Malformed),
                })
            }

            fn message_cipher(&self, session: SessionHandle, function: Function) -> Option<AeadScheme> {
                self.0.message_cipher(session, function)
            }

            fn attributes(
                &self,
                session: SessionHandle,
                object: ObjectHandle,
                attributes: &mut impl Attributes,
            ) -> Result<()> {
                let asked = attributes::asked(attributes);
                let rooms: Vec<_> = asked.iter().map(|(_, room)| room.clone()).collect();
                let call = Call::C_GetAttributeValue { object, asked: Asked(asked) };
                self.0.call_in(session, &call, |outcome| match outcome {
                    Outcome::C_GetAttributeValue(told) if attributes::are_right(&told, &rooms) => {
                        attributes::tell(attributes, &told);
                        Ok(())
                    }
                    _ => Err(Malformed),
                })
            }

            fn find_more(
                &self,
                session: SessionHandle,
                objects: &mut [ObjectHandle],
                start: Instant,
            ) -> Result<usize> {
                let call = Call::C_FindObjects { session: Here, out: objects.len().min(MAX_HANDLES) as u64 };
                self.0.call_since(start, session, &call, |outcome| match outcome {
                    Outcome::C_FindObjects { result, out: Found(found), .. }
                        if result == found.len() && result <= objects.len() =>
                    {
                        objects[..result].copy_from_slice(&found);
                        Ok(result)
                    }
                    _ => Err(Malformed),
                })
            }

            fn derive(
                &self,
                session: SessionHandle,
                mechanism: &Mechanism,
                base: ObjectHandle,
                template: &Template<'_>,
                more: &mut [Additional<'_>],
            ) -> Result<Derived> {
                let template = Sent::<ULONG>::new(template);
                let keys: Vec<_> = more.iter().map(|key| key.template.clone()).collect();
                let keys: Vec<_> = keys.iter().map(Sent::<ULONG>::new).collect();
                let further = Further(keys.iter().map(|key| key.template().into_owned()).collect());
                let call = Call::C_DeriveKey {
                    mechanism: Cow::Borrowed(mechanism),
                    base,
                    template: template.template(),
                    more: further,
                };
                self.0.call_in(session, &call, |outcome| match outcome {
                    Outcome::C_DeriveKey { result, more: keys }
                        if keys.len() == more.len() && derives(mechanism, &result, &keys) =>
                    {
                        for (further, key) in more.iter_mut().zip(keys) {
                            further.key = key;
                        }
                        Ok(result)
                    }
                    _ => Err(Malformed),
                })?
            }

            /// No signature is pending: it would be written to memory of this process.
            fn async_signature(&self, session: SessionHandle, _: AsyncFunction) -> Result<(usize, Result<Secret>)> {
                Err(self.refused(session, Function::C_AsyncComplete, Error::OperationNotInitialized))
            }

            $(method!($function $method($($argument: $kind),*) -> $answer);)*
        }
    };
}

functions!(token);

/// The result of a function with an output.
trait Written {
    /// Returns whether this number of bytes is what a caller gets who has this room; `None` if the
    /// caller asks for the length.
    fn fits(&self, bytes: usize, room: Option<usize>) -> bool;
}

impl Written for usize {
    fn fits(&self, bytes: usize, room: Option<usize>) -> bool {
        room.map_or(bytes == 0 && *self <= MAX_LENGTH, |room| bytes == *self && bytes <= room)
    }
}

impl Written for (usize, Option<ObjectHandle>) {
    fn fits(&self, bytes: usize, room: Option<usize>) -> bool {
        // A question for the length makes no key.
        self.0.fits(bytes, room) && self.1.is_some() == room.is_some()
    }
}

impl Written for Signed {
    fn fits(&self, bytes: usize, room: Option<usize>) -> bool {
        match self {
            Self::Bytes(len) => len.fits(bytes, room),
            // The C interface writes it into the buffer.
            Self::Password(password) => {
                let is_short = usize::from(password.len) <= OneTimePassword::MAX_DIGITS;
                bytes == 0 && is_short && room.is_some_and(|room| self.length() <= room)
            }
        }
    }
}

impl Places<'_> {
    fn check_filled(&self, data: &Data<'_>) -> Taken<()> {
        Malformed::unless(matches!(&self.output, Place::Buffer(buffer) if buffer.len() == data.0.len()))
    }

    fn check_output(&self, data: &Data<'_>, result: &impl Written) -> Taken<()> {
        let room = match &self.output {
            Place::Buffer(buffer) => Some(buffer.len()),
            _ => None,
        };
        Malformed::unless(result.fits(data.0.len(), room))
    }

    fn check_message(&self, written: Option<&MessageParams>) -> Taken<()> {
        let lengths = |params: &MessageParams| (params.nonce().len(), params.tag().len());
        Malformed::unless(self.message.as_deref().map(lengths) == written.map(lengths))
    }

    fn write(&mut self, data: &Data<'_>) {
        if let Place::Buffer(buffer) = &mut self.output {
            buffer[..data.0.len()].copy_from_slice(&data.0);
        }
    }

    fn write_message(&mut self, written: Option<&MessageParams>) {
        if let (Some(params), Some(written)) = (&mut self.message, written) {
            params.nonce_mut().copy_from_slice(written.nonce());
            params.nonce_and_tag().1.copy_from_slice(written.tag());
        }
    }
}
