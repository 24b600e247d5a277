//! Any function of the standard with any arguments, `NULL` among them: for who looks at what a module makes of them.
//!
//! A table has every function with the kinds of its parameters. An argument brings its own memory, so that a call with
//! wrong arguments is the module's affair and not undefined here.

use std::ptr;

use cryptoki_sys::{CK_FUNCTION_LIST, CK_RV, CK_ULONG, CKR_FUNCTION_NOT_SUPPORTED};

use super::attribute::{Attribute, Mechanism};
use super::failure::{Failure, check};
use super::memory::{Memory, Structure};
use super::module::Module;

/// An argument; a pointer and its length are one.
pub enum Arg<'a> {
    /// A handle, a flag, a type.
    Number(CK_ULONG),
    /// Bytes that are read, and their number.
    Bytes(&'a [u8]),
    /// `NULL` for bytes or a template, with this length.
    NullBytes(CK_ULONG),
    /// The parameter of a message function, and its length.
    Structure(&'a Structure),
    /// A buffer that is filled whole, or a list of as many handles as have room.
    Fill(&'a mut [u8]),
    /// A buffer, and where its length stands.
    Buffer(&'a mut [u8], &'a mut CK_ULONG),
    /// `NULL` for the buffer, which asks for the length.
    NoBuffer(&'a mut CK_ULONG),
    /// `NULL` for the place of the length, or for both.
    NoLength(Option<&'a mut [u8]>),
    /// Attributes and their number. What is written to them is dropped.
    Template(&'a [Attribute]),
    /// A mechanism.
    Mechanism(&'a Mechanism),
    /// A place for a structure or a handle, of [`Arg::PLACE`] bytes at least.
    Place(&'a Memory),
    /// `NULL` for a mechanism or a place.
    Null,
}

impl Arg<'_> {
    /// The size of a place: no structure of the standard is larger.
    pub const PLACE: usize = 1024;

    /// A place with nothing in it.
    pub fn place() -> Memory {
        Memory::of(&[0; Self::PLACE])
    }
}

/// What a function takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// [`Arg::Number`]
    Number,
    /// [`Arg::Bytes`] and its like: two parameters.
    Bytes,
    /// [`Arg::Fill`]: two parameters.
    Fill,
    /// [`Arg::Buffer`] and its like, of bytes: two parameters.
    Buffer,
    /// The same, of handles or interfaces.
    List,
    /// [`Arg::Template`]: two parameters.
    Template,
    /// [`Arg::Mechanism`]
    Mechanism,
    /// [`Arg::Place`]
    Place,
    /// The second of the two.
    Length,
    /// A callback, which is always `NULL`.
    Callback,
}

/// A function of the standard.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// Its name.
    pub name: &'static str,
    /// What it takes, a kind for each C parameter.
    pub parameters: &'static [Kind],
}

impl Function {
    /// The kinds of the arguments of [`Module::call`].
    pub fn arguments(&self) -> impl Iterator<Item = Kind> {
        arguments_of(self.parameters)
    }
}

impl Module {
    /// Calls the function called `function`.
    ///
    /// # Panics
    ///
    /// If there is no such function or the arguments are not of its kinds: the caller's mistake.
    pub fn call(&self, function: &'static str, arguments: &mut [Arg<'_>]) -> Result<(), Failure> {
        let known = FUNCTIONS.iter().find(|known| known.name == function);
        let kinds = known.map(|known| known.parameters).unwrap_or_else(|| panic!("{function} is unknown"));
        let given: Vec<_> = arguments_of(kinds).collect();
        assert!(
            given.len() == arguments.len()
                && given.iter().zip(&*arguments).all(|(kind, argument)| fits(*kind, argument)),
            "{function} takes {kinds:?}"
        );
        let mut kept = Kept::default();
        let words: Vec<usize> = arguments.iter_mut().flat_map(|argument| kept.words(argument)).collect();
        check(function, self.dispatch(function, &words), "calling it")
    }
}

/// The kinds for which an argument is given.
fn arguments_of(kinds: &[Kind]) -> impl Iterator<Item = Kind> {
    kinds.iter().copied().filter(|kind| !matches!(kind, Kind::Length | Kind::Callback))
}

fn fits(kind: Kind, argument: &Arg<'_>) -> bool {
    match argument {
        Arg::Number(_) => kind == Kind::Number,
        Arg::Bytes(_) | Arg::Structure(_) => kind == Kind::Bytes,
        Arg::NullBytes(_) => matches!(kind, Kind::Bytes | Kind::Template | Kind::Fill),
        Arg::Fill(_) => kind == Kind::Fill,
        Arg::Buffer(buffer, length) => match kind {
            Kind::Buffer => buffer.len() as CK_ULONG >= **length,
            Kind::List => (buffer.len() / ITEM) as CK_ULONG >= **length,
            _ => false,
        },
        Arg::NoBuffer(_) | Arg::NoLength(_) => matches!(kind, Kind::Buffer | Kind::List),
        Arg::Template(_) => kind == Kind::Template,
        Arg::Mechanism(_) => kind == Kind::Mechanism,
        Arg::Place(memory) => kind == Kind::Place && memory.len() >= Arg::PLACE,
        Arg::Null => matches!(kind, Kind::Mechanism | Kind::Place),
    }
}

/// The largest item of a list.
const ITEM: usize = size_of::<cryptoki_sys::CK_INTERFACE>();

/// What lives as long as the call.
#[derive(Default)]
struct Kept {
    memory: Vec<Memory>,
}

impl Kept {
    /// The C arguments of one of ours.
    fn words(&mut self, argument: &mut Arg<'_>) -> Vec<usize> {
        match argument {
            Arg::Number(number) => vec![*number as usize],
            Arg::Bytes(bytes) => vec![bytes.as_ptr().expose_provenance(), bytes.len()],
            Arg::NullBytes(length) => vec![0, *length as usize],
            Arg::Structure(structure) => {
                let (memory, held) = (*structure).clone().finish();
                self.memory.extend(held);
                let length = memory.len();
                vec![self.keep(memory), length]
            }
            Arg::Fill(bytes) => vec![bytes.as_mut_ptr().expose_provenance(), bytes.len()],
            Arg::Buffer(bytes, length) => {
                vec![bytes.as_mut_ptr().expose_provenance(), place_of(length)]
            }
            Arg::NoBuffer(length) => vec![0, place_of(length)],
            Arg::NoLength(bytes) => {
                vec![bytes.as_mut().map_or(0, |bytes| bytes.as_mut_ptr().expose_provenance()), 0]
            }
            Arg::Template(attributes) => vec![self.template(attributes), attributes.len()],
            Arg::Mechanism(mechanism) => {
                let raw = mechanism.as_raw();
                let made = Structure::new().number(raw.mechanism);
                let made = if raw.pParameter.is_null() {
                    made.null()
                } else {
                    made.pointer(&Memory::of(&mechanism.parameter))
                };
                let (memory, held) = made.number(raw.ulParameterLen).finish();
                self.memory.extend(held);
                vec![self.keep(memory)]
            }
            Arg::Place(memory) => vec![self.keep((*memory).clone())],
            Arg::Null => vec![0],
        }
    }

    /// The values are copied: C_GetAttributeValue writes to them.
    fn template(&mut self, attributes: &[Attribute]) -> usize {
        let made = attributes
            .iter()
            .fold(Structure::new(), |made, attribute| made.number(attribute.kind).bytes(&attribute.value));
        let (memory, held) = made.finish();
        self.memory.extend(held);
        self.keep(memory)
    }

    fn keep(&mut self, memory: Memory) -> usize {
        let address = memory.address();
        self.memory.push(memory);
        address
    }
}

fn place_of(length: &mut CK_ULONG) -> usize {
    ptr::from_mut(length).expose_provenance()
}

macro_rules! kind {
    (n) => {
        Kind::Number
    };
    (b) => {
        Kind::Bytes
    };
    (f) => {
        Kind::Fill
    };
    (o) => {
        Kind::Buffer
    };
    (l) => {
        Kind::List
    };
    (t) => {
        Kind::Template
    };
    (m) => {
        Kind::Mechanism
    };
    (p) => {
        Kind::Place
    };
    (x) => {
        Kind::Callback
    };
    (.) => {
        Kind::Length
    };
}

macro_rules! word {
    (x $next:ident) => {
        None
    };
    ($kind:tt $next:ident) => {
        $next() as _
    };
}

/// Says each function once: its list, its name and a kind for each of its parameters; a dot is a length.
macro_rules! functions {
    ($($list:ident { $($name:ident($($kind:tt)*);)* })*) => {
        /// The functions of PKCS#11 3.2, in the order of its headers.
        pub const FUNCTIONS: &[Function] = &[
            $($(Function { name: stringify!($name), parameters: &[$(kind!($kind)),*] },)*)*
        ];

        impl Module {
            fn dispatch(&self, function: &str, words: &[usize]) -> CK_RV {
                let mut words = words.iter().copied();
                let mut next = || words.next().unwrap_or(0);
                match function {
                    $($(stringify!($name) => match self.$list().and_then(|list| list.$name) {
                        // SAFETY: `call` saw to it that every word is of the kind that the table has for its
                        // parameter, and that its memory lives. What a module makes of addresses inside a structure
                        // is for the maker of the structure to answer for.
                        Some(entry) => unsafe { entry($(word!($kind next)),*) },
                        None => CKR_FUNCTION_NOT_SUPPORTED,
                    },)*)*
                    _ => CKR_FUNCTION_NOT_SUPPORTED,
                }
            }

            fn functions_2_40(&self) -> Option<&CK_FUNCTION_LIST> {
                Some(self.functions())
            }
        }
    };
}

functions! {
    functions_2_40 {
        C_Initialize(p);
        C_Finalize(p);
        C_GetInfo(p);
        C_GetFunctionList(p);
        C_GetSlotList(n l .);
        C_GetSlotInfo(n p);
        C_GetTokenInfo(n p);
        C_GetMechanismList(n l .);
        C_GetMechanismInfo(n n p);
        C_InitToken(n b . p);
        C_InitPIN(n b .);
        C_SetPIN(n b . b .);
        C_OpenSession(n n p x p);
        C_CloseSession(n);
        C_CloseAllSessions(n);
        C_GetSessionInfo(n p);
        C_GetOperationState(n o .);
        C_SetOperationState(n b . n n);
        C_Login(n n b .);
        C_Logout(n);
        C_CreateObject(n t . p);
        C_CopyObject(n n t . p);
        C_DestroyObject(n n);
        C_GetObjectSize(n n p);
        C_GetAttributeValue(n n t .);
        C_SetAttributeValue(n n t .);
        C_FindObjectsInit(n t .);
        C_FindObjects(n f . p);
        C_FindObjectsFinal(n);
        C_EncryptInit(n m n);
        C_Encrypt(n b . o .);
        C_EncryptUpdate(n b . o .);
        C_EncryptFinal(n o .);
        C_DecryptInit(n m n);
        C_Decrypt(n b . o .);
        C_DecryptUpdate(n b . o .);
        C_DecryptFinal(n o .);
        C_DigestInit(n m);
        C_Digest(n b . o .);
        C_DigestUpdate(n b .);
        C_DigestKey(n n);
        C_DigestFinal(n o .);
        C_SignInit(n m n);
        C_Sign(n b . o .);
        C_SignUpdate(n b .);
        C_SignFinal(n o .);
        C_SignRecoverInit(n m n);
        C_SignRecover(n b . o .);
        C_VerifyInit(n m n);
        C_Verify(n b . b .);
        C_VerifyUpdate(n b .);
        C_VerifyFinal(n b .);
        C_VerifyRecoverInit(n m n);
        C_VerifyRecover(n b . o .);
        C_DigestEncryptUpdate(n b . o .);
        C_DecryptDigestUpdate(n b . o .);
        C_SignEncryptUpdate(n b . o .);
        C_DecryptVerifyUpdate(n b . o .);
        C_GenerateKey(n m t . p);
        C_GenerateKeyPair(n m t . t . p p);
        C_WrapKey(n m n n o .);
        C_UnwrapKey(n m n b . t . p);
        C_DeriveKey(n m n t . p);
        C_SeedRandom(n b .);
        C_GenerateRandom(n f .);
        C_GetFunctionStatus(n);
        C_CancelFunction(n);
        C_WaitForSlotEvent(n p p);
    }
    functions_3_0 {
        C_GetInterfaceList(l .);
        C_GetInterface(p p p n);
        C_LoginUser(n n b . b .);
        C_SessionCancel(n n);
        C_MessageEncryptInit(n m n);
        C_EncryptMessage(n b . b . b . o .);
        C_EncryptMessageBegin(n b . b .);
        C_EncryptMessageNext(n b . b . o . n);
        C_MessageEncryptFinal(n);
        C_MessageDecryptInit(n m n);
        C_DecryptMessage(n b . b . b . o .);
        C_DecryptMessageBegin(n b . b .);
        C_DecryptMessageNext(n b . b . o . n);
        C_MessageDecryptFinal(n);
        C_MessageSignInit(n m n);
        C_SignMessage(n b . b . o .);
        C_SignMessageBegin(n b .);
        C_SignMessageNext(n b . b . o .);
        C_MessageSignFinal(n);
        C_MessageVerifyInit(n m n);
        C_VerifyMessage(n b . b . b .);
        C_VerifyMessageBegin(n b .);
        C_VerifyMessageNext(n b . b . b .);
        C_MessageVerifyFinal(n);
    }
    functions_3_2 {
        C_EncapsulateKey(n m n t . o . p);
        C_DecapsulateKey(n m n t . b . p);
        C_VerifySignatureInit(n m n b .);
        C_VerifySignature(n b .);
        C_VerifySignatureUpdate(n b .);
        C_VerifySignatureFinal(n);
        C_GetSessionValidationFlags(n n p);
        C_AsyncComplete(n p p);
        C_AsyncGetID(n p p);
        C_AsyncJoin(n p n b .);
        C_WrapKeyAuthenticated(n m n n b . o .);
        C_UnwrapKeyAuthenticated(n m n b . t . b . p);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standard_has_104_functions() {
        assert_eq!(FUNCTIONS.len(), 104);
        let session: Vec<_> =
            FUNCTIONS.iter().filter(|one| one.name == "C_Sign").flat_map(Function::arguments).collect();
        assert_eq!(session, [Kind::Number, Kind::Bytes, Kind::Buffer]);
    }
}
