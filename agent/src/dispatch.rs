//! Carries calls out: builds the arguments of the C interface from a message, calls the function,
//! and adds what it wrote to the answer.
//!
//! All pointers that the function gets point to memory of this file, whatever the message says.

use std::ptr::null_mut;

use cryptoki_sys::*;
use jeton_agent_wire::argument::Argument;
use jeton_agent_wire::layout::{ATTRIBUTE, Written};
use jeton_agent_wire::{Function, Malformed, Parameter, functions, writes};
use serde_bytes::Bytes;

use crate::budget::{Budget, Unserved};
use crate::given::{Buffer, Given, MechanismGiven, MessageGiven, Pointee, TemplateGiven, take_number};

/// Takes the arguments of a function one after the other. The three lists are the statements that
/// take them, the arguments of the C function, and the statements that report what it wrote.
macro_rules! serve {
    ($c:ident $name:ident {$($take:tt)*} ($($given:tt)*) {$($report:tt)*}) => {{
        $($take)*
        Malformed::unless($c.rest.next().is_none())?;
        let function = jeton_pkcs11::functions().$name.ok_or(Malformed)?;
        // SAFETY: all pointers are `NULL` or point to memory of the arguments, of which they have
        // the lengths. Nothing else uses this memory.
        let code = unsafe { function($($given)*) };
        #[allow(unused_mut, reason = "not every function writes")]
        let mut outputs: Vec<&Bytes> = Vec::new();
        // A call that failed wrote nothing, and its rooms do not travel.
        if writes(code) {
            $(serve!(@report $c code outputs $report);)*
        }
        Ok(($c.answer)(code, &outputs)?)
    }};
    (@report $c:ident $code:ident $outputs:ident [coded $a:ident]) => { $a.report($code, &mut $outputs) };
    (@report $c:ident $code:ident $outputs:ident [filled $a:ident]) => { $a.report_filled($code, &mut $outputs) };
    (@report $c:ident $code:ident $outputs:ident [found $a:ident]) => { $a.report($code, &mut $outputs) };
    (@report $c:ident $code:ident $outputs:ident [plain $a:ident $type:ty]) => {
        $a.clear_padding(<$type as Written>::FIELDS);
        $a.report($code, &mut $outputs);
    };
    (@report $c:ident $code:ident $outputs:ident [memory $a:ident]) => { $a.report(&mut $outputs) };

    ($c:ident $name:ident {$($t:tt)*} ($($g:tt)*) {$($r:tt)*} [Session $a:ident] $($rest:tt)*) => {
        serve!($c $name {$($t)*} ($($g)* $c.session,) {$($r)*} $($rest)*)
    };
    ($c:ident $name:ident {$($t:tt)*} ($($g:tt)*) {$($r:tt)*} [Number $a:ident] $($rest:tt)*) => {
        serve!($c $name {$($t)* let $a = take_number($c.rest)?;} ($($g)* $a,) {$($r)*} $($rest)*)
    };
    ($c:ident $name:ident {$($t:tt)*} ($($g:tt)*) {$($r:tt)*} [Flag $a:ident] $($rest:tt)*) => {
        serve!($c $name {$($t)* let $a = take_number($c.rest)?;} ($($g)* $a as CK_BBOOL,) {$($r)*} $($rest)*)
    };
    ($c:ident $name:ident {$($t:tt)*} ($($g:tt)*) {$($r:tt)*} [Void $a:ident] $($rest:tt)*) => {
        serve!($c $name {$($t)* let mut $a = Pointee::<u64>::take($c.rest)?;}
            ($($g)* $a.pointer().cast(),) {$($r)*} $($rest)*)
    };
    ($c:ident $name:ident {$($t:tt)*} ($($g:tt)*) {$($r:tt)*} [Notify $a:ident] $($rest:tt)*) => {
        serve!($c $name {$($t)* let _ = Pointee::<u64>::take($c.rest)?;} ($($g)* None,) {$($r)*} $($rest)*)
    };
    ($c:ident $name:ident {$($t:tt)*} ($($g:tt)*) {$($r:tt)*} [In $a:ident, $b:ident] $($rest:tt)*) => {
        serve!($c $name {$($t)* let $a = Given::take($c.rest)?;} ($($g)* $a.pointer(), $a.length(),) {$($r)*} $($rest)*)
    };
    ($c:ident $name:ident {$($t:tt)*} ($($g:tt)*) {$($r:tt)*} [Short $a:ident, $b:ident] $($rest:tt)*) => {
        serve!($c $name {$($t)* let $a = Given::take_short($c.rest)?;}
            ($($g)* $a.pointer(), $a.length(),) {$($r)*} $($rest)*)
    };
    ($c:ident $name:ident {$($t:tt)*} ($($g:tt)*) {$($r:tt)*} [Ignored $a:ident, $b:ident] $($rest:tt)*) => {
        serve!($c $name {$($t)*} ($($g)* null_mut(), 0,) {$($r)*} $($rest)*)
    };
    ($c:ident $name:ident {$($t:tt)*} ($($g:tt)*) {$($r:tt)*} [Text $a:ident $len:literal] $($rest:tt)*) => {
        serve!($c $name {$($t)* let $a = Given::take_text($c.rest, $len)?;} ($($g)* $a.pointer(),) {$($r)*} $($rest)*)
    };
    ($c:ident $name:ident {$($t:tt)*} ($($g:tt)*) {$($r:tt)*} [Name $a:ident] $($rest:tt)*) => {
        serve!($c $name {$($t)* let $a = Given::take_name($c.rest)?;} ($($g)* $a.pointer(),) {$($r)*} $($rest)*)
    };
    ($c:ident $name:ident {$($t:tt)*} ($($g:tt)*) {$($r:tt)*} [Out $a:ident, $b:ident] $($rest:tt)*) => {
        serve!($c $name {$($t)* let mut $a = Buffer::take_out($c.rest, $c.budget)?;}
            ($($g)* $a.pointer(), $a.len_pointer(),) {$($r)* [coded $a]} $($rest)*)
    };
    ($c:ident $name:ident {$($t:tt)*} ($($g:tt)*) {$($r:tt)*} [List $a:ident, $b:ident] $($rest:tt)*) => {
        serve!($c $name {$($t)* let mut $a = Buffer::take_list($c.rest, $c.budget)?;}
            ($($g)* $a.pointer(), $a.len_pointer(),) {$($r)* [coded $a]} $($rest)*)
    };
    ($c:ident $name:ident {$($t:tt)*} ($($g:tt)*) {$($r:tt)*} [Found $a:ident, $b:ident, $d:ident] $($rest:tt)*) => {
        serve!($c $name {$($t)* let mut $a = Buffer::take_list($c.rest, $c.budget)?; let $b = $a.room();}
            ($($g)* $a.pointer(), $b, $a.len_pointer(),) {$($r)* [found $a]} $($rest)*)
    };
    ($c:ident $name:ident {$($t:tt)*} ($($g:tt)*) {$($r:tt)*} [Fill $a:ident, $b:ident] $($rest:tt)*) => {
        serve!($c $name {$($t)* let mut $a = Buffer::take_filled($c.rest, $c.budget)?;}
            ($($g)* $a.pointer(), $a.room(),) {$($r)* [filled $a]} $($rest)*)
    };
    ($c:ident $name:ident {$($t:tt)*} ($($g:tt)*) {$($r:tt)*} [Put $a:ident $type:ty] $($rest:tt)*) => {
        serve!($c $name {$($t)* let mut $a = Pointee::<$type>::take($c.rest)?;}
            ($($g)* $a.pointer(),) {$($r)* [plain $a $type]} $($rest)*)
    };
    ($c:ident $name:ident {$($t:tt)*} ($($g:tt)*) {$($r:tt)*} [Mechanism $a:ident] $($rest:tt)*) => {
        serve!($c $name {$($t)* let mut $a = MechanismGiven::take($c.rest, None, $c.budget)?;}
            ($($g)* $a.pointer(),) {$($r)* [memory $a]} $($rest)*)
    };
    ($c:ident $name:ident {$($t:tt)*} ($($g:tt)*) {$($r:tt)*} [MessageInit $a:ident] $($rest:tt)*) => {
        serve!($c $name {$($t)* let mut $a = MechanismGiven::take($c.rest, Some(Parameter::MessageInit), $c.budget)?;}
            ($($g)* $a.pointer(),) {$($r)* [memory $a]} $($rest)*)
    };
    ($c:ident $name:ident {$($t:tt)*} ($($g:tt)*) {$($r:tt)*} [MessageMechanism $a:ident] $($rest:tt)*) => {
        serve!($c $name {$($t)* let mut $a = MechanismGiven::take($c.rest, Some(Parameter::Message), $c.budget)?;}
            ($($g)* $a.pointer(),) {$($r)* [memory $a]} $($rest)*)
    };
    ($c:ident $name:ident {$($t:tt)*} ($($g:tt)*) {$($r:tt)*} [Message $a:ident, $b:ident] $($rest:tt)*) => {
        serve!($c $name {$($t)* let mut $a = MessageGiven::take($c.rest, $c.budget)?;}
            ($($g)* $a.pointer(), $a.length(),) {$($r)* [memory $a]} $($rest)*)
    };
    ($c:ident $name:ident {$($t:tt)*} ($($g:tt)*) {$($r:tt)*} [Template $a:ident, $b:ident] $($rest:tt)*) => {
        serve!($c $name {$($t)* let mut $a = TemplateGiven::take($c.rest, &ATTRIBUTE, $c.budget)?;}
            ($($g)* $a.pointer(), $a.count(),) {$($r)* [memory $a]} $($rest)*)
    };
    ($c:ident $name:ident {$($t:tt)*} ($($g:tt)*) {$($r:tt)*} [Values $a:ident, $b:ident] $($rest:tt)*) => {
        serve!($c $name {$($t)*
            let function = jeton_pkcs11::functions().$name.ok_or(Malformed)?;
            let mut $a = TemplateGiven::take_values($c.rest, $c.budget, |attributes, count| {
                // SAFETY: as for the call that follows.
                unsafe { function($($g)* attributes, count) }
            })?;
        }
            ($($g)* $a.pointer(), $a.count(),) {$($r)* [memory $a]} $($rest)*)
    };
}

/// Takes the code of a call and what its function wrote.
pub type Answering<'a> = dyn FnMut(CK_RV, &[&Bytes]) -> Result<(), Malformed> + 'a;

/// A call, and where its answer goes.
struct Carried<'a, 'b> {
    session: CK_SESSION_HANDLE,
    rest: &'b mut std::slice::Iter<'a, Argument<'a>>,
    budget: &'b mut Budget,
    answer: &'b mut Answering<'b>,
}

macro_rules! carry_out {
    ($($name:ident($($argument:tt)*);)*) => {
        /// Carries out a call. `answer` gets the code and what the function wrote. Fails, without
        /// calling the function, if the arguments are not those of the function, or if the client's
        /// quota has no room for them.
        pub fn carry_out<'a>(
            function: Function,
            session: CK_SESSION_HANDLE,
            arguments: &'a [Argument<'a>],
            budget: &mut Budget,
            answer: &mut Answering<'_>,
        ) -> Result<(), Unserved> {
            let carried = Carried { session, rest: &mut arguments.iter(), budget, answer };
            match function {
                $(Function::$name => serve!(carried $name {} () {} $($argument)*),)*
            }
        }
    };
}

functions!(carry_out);
