//! The token of a process whose module knows split keys: that of one agent, or a group of agents if
//! there is a section `[split]`.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use jeton_agent_wire::call::MAX_HANDLES;
use jeton_secret::Secret;
use jeton_words::asynchronous::{AsyncFunction, Completed, Started};
use jeton_words::bounded::List;
use jeton_words::cipher::AeadScheme;
use jeton_words::derive::{Additional, Derived};
use jeton_words::error::{Error, Result};
use jeton_words::general::Threads;
use jeton_words::id::{MechanismType, ObjectHandle, SessionHandle, SlotId};
use jeton_words::mechanism::Mechanism;
use jeton_words::operation::Signed;
use jeton_words::session::SessionInfo;
use jeton_words::slot::{MechanismInfo, SlotInfo, TokenInfo};
use jeton_words::template::Template;
use jeton_words::token::{Attributes, Function, Token};
use jeton_words::{argument, functions};

use crate::group::Group;
use crate::remote::Remote;
use crate::transport;

/// One agent, or a group.
#[derive(Default)]
pub struct Client {
    agent: Remote,
    group: RwLock<Option<Arc<Group>>>,
}

impl Client {
    fn group(&self) -> Option<Arc<Group>> {
        self.group.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Calls a method of the group. What a group cannot do is no function of its token.
macro_rules! by_group {
    ($group:ident slots()) => { $group.slots() };
    ($group:ident slot($($a:ident),*)) => { $group.slot($($a),*) };
    ($group:ident token($($a:ident),*)) => { $group.token($($a),*) };
    ($group:ident mechanisms($($a:ident),*)) => { $group.mechanisms($($a),*) };
    ($group:ident mechanism($($a:ident),*)) => { $group.mechanism($($a),*) };
    ($group:ident open_session($($a:ident),*)) => { $group.open_session($($a),*) };
    ($group:ident close_session($($a:ident),*)) => { $group.close_session($($a),*) };
    ($group:ident close_all_sessions($($a:ident),*)) => { $group.close_all_sessions($($a),*) };
    ($group:ident session($($a:ident),*)) => { $group.session($($a),*) };
    ($group:ident cancel($($a:ident),*)) => { $group.cancel($($a),*) };
    ($group:ident login($($a:ident),*)) => { $group.login($($a),*) };
    ($group:ident logout($($a:ident),*)) => { $group.logout($($a),*) };
    ($group:ident destroy_object($($a:ident),*)) => { $group.destroy_object($($a),*) };
    ($group:ident object_size($($a:ident),*)) => { $group.object_size($($a),*) };
    ($group:ident set_attributes($($a:ident),*)) => { $group.set_attributes($($a),*) };
    ($group:ident find_init($($a:ident),*)) => { $group.find_init($($a),*) };
    ($group:ident find($($a:ident),*)) => { $group.find($($a),*) };
    ($group:ident find_final($($a:ident),*)) => { $group.find_final($($a),*) };
    ($group:ident sign_init($($a:ident),*)) => { $group.sign_init($($a),*) };
    ($group:ident sign($($a:ident),*)) => { $group.sign($($a),*) };
    ($group:ident sign_update($($a:ident),*)) => { $group.sign_update($($a),*) };
    ($group:ident sign_final($($a:ident),*)) => { $group.sign_final($($a),*) };
    ($group:ident verify_init($($a:ident),*)) => { $group.verify_init($($a),*) };
    ($group:ident verify($($a:ident),*)) => { $group.verify($($a),*) };
    ($group:ident verify_update($($a:ident),*)) => { $group.verify_update($($a),*) };
    ($group:ident verify_final($($a:ident),*)) => { $group.verify_final($($a),*) };
    ($group:ident generate_key_pair($($a:ident),*)) => { $group.generate_key_pair($($a),*) };
    ($group:ident random($($a:ident),*)) => { $group.random($($a),*) };
    ($group:ident $other:ident($($a:ident),*)) => {{
        let _ = ($group, $($a),*);
        Err(Error::FunctionNotSupported)
    }};
}

macro_rules! token {
    ($($function:ident $method:ident($($argument:ident: $kind:ident),*) -> $answer:ty;)*) => {
        impl Token for Client {
            const BATCH: usize = MAX_HANDLES;

            fn start(&self, parameters: Option<&str>, threads: Threads) -> Result<()> {
                let Some(split) = transport::split(parameters)? else {
                    return self.agent.start(parameters, threads);
                };
                let group = Group::start(&split, threads)?;
                *self.group.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(group));
                Ok(())
            }

            fn stop(&self) -> Result<()> {
                match self.group.write().unwrap_or_else(PoisonError::into_inner).take() {
                    Some(group) => {
                        group.stop();
                        Ok(())
                    }
                    None => self.agent.stop(),
                }
            }

            fn refused(&self, session: SessionHandle, function: Function, error: Error) -> Error {
                match self.group() {
                    Some(group) => group.session(session).err().unwrap_or(error),
                    None => self.agent.refused(session, function, error),
                }
            }

            fn clear(&self, session: SessionHandle, function: Function) -> Result<()> {
                match self.group() {
                    Some(group) => group.clear(session, function),
                    None => self.agent.clear(session, function),
                }
            }

            fn message_cipher(&self, session: SessionHandle, function: Function) -> Option<AeadScheme> {
                match self.group() {
                    Some(_) => None,
                    None => self.agent.message_cipher(session, function),
                }
            }

            fn attributes(
                &self,
                session: SessionHandle,
                object: ObjectHandle,
                attributes: &mut impl Attributes,
            ) -> Result<()> {
                match self.group() {
                    Some(group) => group.attributes(session, object, attributes),
                    None => self.agent.attributes(session, object, attributes),
                }
            }

            fn find_more(
                &self,
                session: SessionHandle,
                objects: &mut [ObjectHandle],
                start: Instant,
            ) -> Result<usize> {
                match self.group() {
                    Some(group) => group.find(session, objects),
                    None => self.agent.find_more(session, objects, start),
                }
            }

            fn derive(
                &self,
                session: SessionHandle,
                mechanism: &Mechanism,
                base: ObjectHandle,
                template: &Template<'_>,
                more: &mut [Additional<'_>],
            ) -> Result<Derived> {
                match self.group() {
                    Some(_) => Err(Error::FunctionNotSupported),
                    None => self.agent.derive(session, mechanism, base, template, more),
                }
            }

            fn async_signature(
                &self,
                session: SessionHandle,
                function: AsyncFunction,
            ) -> Result<(usize, Result<Secret>)> {
                match self.group() {
                    Some(_) => Err(Error::FunctionNotSupported),
                    None => self.agent.async_signature(session, function),
                }
            }

            $(fn $method(&self, $($argument: argument!($kind)),*) -> Result<$answer> {
                match self.group() {
                    Some(group) => by_group!(group $method($($argument),*)),
                    None => self.agent.$method($($argument),*),
                }
            })*
        }
    };
}

functions!(token);
