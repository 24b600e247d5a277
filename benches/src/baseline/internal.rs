//! Internal functions of AWS-LC: its archive exports them, but aws-lc-sys has no bindings for them.

use aws_lc_sys as aws;

use super::one;

/// Declares `Functions`, the functions of a parameter set with the ends of their names, and a macro
/// `functions_of` that collects those of the set with this name in the archive. The first argument
/// is a dollar sign, which a macro cannot write for the macro that it declares.
macro_rules! internal_functions {
    ($d:tt $($function:ident $name:literal ($($argument:ident: $kind:ty),* $(,)?)),* $(,)?) => {
        #[derive(Clone, Copy)]
        struct Functions {
            $($function: unsafe extern "C" fn($($argument: $kind),*) -> std::ffi::c_int,)*
        }

        macro_rules! functions_of {
            ($d set:literal) => {{
                unsafe extern "C" {
                    $(
                        #[link_name = concat!("aws_lc_0_47_0_", $d set, $name)]
                        fn $function($($argument: $kind),*) -> std::ffi::c_int;
                    )*
                }
                Functions { $($function),* }
            }};
        }
    };
}

pub(super) use internal_functions;

pub(super) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // SAFETY: the length is that of `bytes`.
    one(unsafe { aws::RAND_bytes(bytes.as_mut_ptr(), bytes.len()) });
    bytes
}
