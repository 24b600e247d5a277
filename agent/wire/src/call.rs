//! Calls of functions, and their results. The table of functions makes both.
//!
//! An argument that a function only reads travels in the [`Call`]. The place for a result travels
//! there as the room that the caller has, and comes back in the [`Outcome`] as what the function
//! wrote. A call whose arguments could not be read travels as the error: see [`Call::Refused`].
//!
//! Byte strings are borrowed from the message, which both sides wipe. In templates and values,
//! numbers have eight bytes, little-endian: a client on another platform converts them.

use std::borrow::Cow;

use jeton_words::asynchronous::{AsyncFunction, Completed, Started};
use jeton_words::bounded::{List, MAX_ITEMS, at_most, nested, together};
use jeton_words::derive::Derived;
use jeton_words::error::Error;
use jeton_words::functions;
use jeton_words::id::{AttributeType, MechanismType, ObjectHandle, SessionHandle, SlotId};
use jeton_words::mechanism::Mechanism;
use jeton_words::message::MessageParams;
use jeton_words::operation::Signed;
use jeton_words::session::{Access, SessionInfo, User};
use jeton_words::slot::{MechanismInfo, SlotInfo, TokenInfo, Wait};
use jeton_words::sp800_108::MAX_FIELDS;
use jeton_words::template::Template;
use jeton_words::token::{Function, Room};
use serde::{Deserialize, Deserializer, Serialize};
use serde_bytes::Bytes;

/// The greatest number of handles that one call of `C_FindObjects` returns. A client that wants
/// more calls again.
pub const MAX_HANDLES: usize = MAX_ITEMS;

/// The session of the request. It needs no bytes.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Here;

/// The room that the caller has for an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OutputRoom {
    /// The caller asks for the length.
    Length,
    /// The caller has a buffer of this number of bytes. The agent takes at most what a message has.
    Bytes(u64),
}

/// The bytes that a function wrote.
#[derive(Default, Serialize, Deserialize)]
pub struct Data<'a>(#[serde(borrow, with = "serde_bytes")] pub Cow<'a, Bytes>);

/// The objects that a search found, at most [`MAX_HANDLES`].
#[derive(Serialize, Deserialize)]
pub struct Found(#[serde(deserialize_with = "at_most::<MAX_HANDLES, _, _>")] pub Vec<ObjectHandle>);

/// The attributes that `C_GetAttributeValue` asks for.
#[derive(Serialize, Deserialize)]
pub struct Asked(#[serde(deserialize_with = "nested")] pub Vec<(AttributeType, Room)>);

/// The templates of the further keys of `C_DeriveKey`.
#[derive(Serialize)]
pub struct Further<'a>(pub Vec<Template<'a>>);

impl<'de: 'a, 'a> Deserialize<'de> for Further<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        together(|| at_most::<MAX_FIELDS, _, _>(from)).map(Self)
    }
}

/// What there is to tell of an attribute. A value travels only if the caller has room for it.
#[derive(Serialize, Deserialize)]
pub enum Told<'a> {
    /// There is no value.
    Refused(Error),
    /// The length of a value that does not travel.
    Length(Length),
    /// A value that is a number of the C interface.
    Number(u64),
    /// Another value.
    Bytes(#[serde(borrow)] Data<'a>),
    /// The attributes of a template.
    Template(#[serde(borrow, deserialize_with = "nested")] Vec<(AttributeType, Told<'a>)>),
}

/// The length of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Length {
    /// A number of the C interface.
    Number,
    /// This number of bytes.
    Bytes(u64),
    /// This number of attributes.
    Attributes(u64),
}

/// The type of an argument in a [`Call`], by its kind in the table of functions.
macro_rules! sent {
    ($a:lifetime Slot) => { SlotId };
    ($a:lifetime Session) => { Here };
    ($a:lifetime Object) => { ObjectHandle };
    ($a:lifetime Type) => { MechanismType };
    ($a:lifetime Number) => { u64 };
    ($a:lifetime Flag) => { bool };
    ($a:lifetime Wait) => { Wait };
    ($a:lifetime Access) => { Access };
    ($a:lifetime User) => { User };
    ($a:lifetime AsyncFunction) => { AsyncFunction };
    ($a:lifetime Label) => { [u8; 32] };
    ($a:lifetime Pin) => { &$a Bytes };
    ($a:lifetime Bytes) => { &$a Bytes };
    ($a:lifetime Fill) => { u64 };
    ($a:lifetime Handles) => { u64 };
    ($a:lifetime Output) => { OutputRoom };
    ($a:lifetime Template) => { Cow<$a, Template<$a>> };
    ($a:lifetime Mechanism) => { Cow<$a, Mechanism> };
    ($a:lifetime CryptMechanism) => { Cow<$a, Mechanism> };
    ($a:lifetime Message) => { MessageParams };
    ($a:lifetime MaybeMessage) => { Option<MessageParams> };
}

/// The type of what a function wrote for an argument, by its kind. `()` needs no bytes.
macro_rules! written {
    ($a:lifetime Fill) => { Data<$a> };
    ($a:lifetime Handles) => { Found };
    ($a:lifetime Output) => { Data<$a> };
    ($a:lifetime Message) => { MessageParams };
    ($a:lifetime MaybeMessage) => { Option<MessageParams> };
    ($a:lifetime $other:ident) => { () };
}

macro_rules! mechanism {
    (Mechanism $argument:ident) => {
        Some($argument.info.id)
    };
    (CryptMechanism $argument:ident) => {
        Some($argument.info.id)
    };
    ($other:ident $argument:ident) => {{
        let _ = $argument;
        None
    }};
}

macro_rules! slot {
    (Slot $argument:ident) => {
        Some(*$argument)
    };
    ($other:ident $argument:ident) => {{
        let _ = $argument;
        None
    }};
}

macro_rules! room {
    (Output $argument:ident) => {
        Some(*$argument)
    };
    ($other:ident $argument:ident) => {{
        let _ = $argument;
        None
    }};
}

macro_rules! make {
    ($($function:ident $method:ident($($argument:ident: $kind:ident),*) -> $answer:ty;)*) => {
        /// A call of a function.
        #[derive(Serialize, Deserialize)]
        #[allow(missing_docs, non_camel_case_types, reason = "the names are the specification's")]
        pub enum Call<'a> {
            /// A call whose arguments could not be read, and the reason.
            Refused { function: Function, error: Error },
            /// An `Init` function without a mechanism: it ends the operation.
            Clear(Function),
            C_GetAttributeValue { object: ObjectHandle, asked: Asked },
            C_DeriveKey {
                #[serde(borrow)] mechanism: Cow<'a, Mechanism>,
                base: ObjectHandle,
                #[serde(borrow)] template: Cow<'a, Template<'a>>,
                #[serde(borrow)] more: Further<'a>,
            },
            $($function { $(#[serde(borrow)] $argument: sent!('a $kind),)* },)*
        }

        impl Call<'_> {
            /// Returns the function.
            pub fn function(&self) -> Function {
                match self {
                    Self::Refused { function, .. } | Self::Clear(function) => *function,
                    Self::C_GetAttributeValue { .. } => Function::C_GetAttributeValue,
                    Self::C_DeriveKey { .. } => Function::C_DeriveKey,
                    $(Self::$function { .. } => Function::$function,)*
                }
            }

            /// Returns the mechanism that the call uses.
            pub fn mechanism(&self) -> Option<MechanismType> {
                match self {
                    Self::C_DeriveKey { mechanism, .. } => Some(mechanism.info.id),
                    Self::Refused { .. } | Self::Clear(_) | Self::C_GetAttributeValue { .. } => None,
                    $(Self::$function { $($argument),* } => {
                        None$(.or(mechanism!($kind $argument)))*
                    })*
                }
            }

            /// Returns the room for the output of a function that has one.
            pub fn room(&self) -> Option<OutputRoom> {
                match self {
                    Self::Refused { .. } | Self::Clear(_) => None,
                    Self::C_GetAttributeValue { .. } | Self::C_DeriveKey { .. } => None,
                    $(Self::$function { $($argument),* } => None$(.or(room!($kind $argument)))*,)*
                }
            }

            /// Returns the slot of a function without a session.
            pub fn slot(&self) -> Option<SlotId> {
                match self {
                    Self::Refused { .. } | Self::Clear(_) => None,
                    Self::C_GetAttributeValue { .. } | Self::C_DeriveKey { .. } => None,
                    $(Self::$function { $($argument),* } => None$(.or(slot!($kind $argument)))*,)*
                }
            }
        }

        /// The result of a function that did not fail.
        #[derive(Serialize, Deserialize)]
        #[allow(missing_docs, non_camel_case_types, reason = "the names are the specification's")]
        pub enum Outcome<'a> {
            /// [`Call::Clear`]
            Cleared,
            /// What there is to tell of each attribute.
            C_GetAttributeValue(#[serde(borrow, deserialize_with = "nested")] Vec<Told<'a>>),
            /// The handles of the further keys are set even if the call failed.
            C_DeriveKey {
                result: Result<Derived, Error>,
                #[serde(deserialize_with = "at_most::<MAX_FIELDS, _, _>")] more: Vec<Option<ObjectHandle>>,
            },
            $($function { result: $answer, $(#[serde(borrow)] $argument: written!('a $kind),)* },)*
        }

        impl Outcome<'_> {
            /// Returns the function whose result this is; `None` for [`Self::Cleared`].
            pub fn function(&self) -> Option<Function> {
                match self {
                    Self::Cleared => None,
                    Self::C_GetAttributeValue(_) => Some(Function::C_GetAttributeValue),
                    Self::C_DeriveKey { .. } => Some(Function::C_DeriveKey),
                    $(Self::$function { .. } => Some(Function::$function),)*
                }
            }
        }
    };
}

functions!(make);

/// What a call returned, and what its session has.
#[derive(Serialize, Deserialize)]
pub struct Answer<'a> {
    /// The result.
    #[serde(borrow)]
    pub outcome: Result<Outcome<'a>, Error>,
    /// What the session has besides itself.
    pub state: State,
    /// What the client keeps for another agent: after `C_Login` a ticket that logs in again, and
    /// after `C_OpenSession` the serial number of the token. At most [`MAX_KEPT`](crate::MAX_KEPT)
    /// bytes.
    #[serde(borrow)]
    pub kept: Option<&'a Bytes>,
}

impl Answer<'_> {
    /// Returns the error of the call.
    pub fn error(&self) -> Option<Error> {
        match &self.outcome {
            Err(error) | Ok(Outcome::C_DeriveKey { result: Err(error), .. }) => Some(*error),
            Ok(_) => None,
        }
    }
}

/// What a session has besides itself, after a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The active operations: a bit for each.
    pub operations: u16,
    /// The number of session objects that the application has on the token.
    pub objects: u64,
}
