//! The function lists and interfaces of a module.

/// Calls a macro with the functions of PKCS#11 and their parameters, in the order of the
/// specification's headers. Each name appears once; the compiler rejects a missing or a repeated
/// one. Those that return the function lists have no parameters here. The types must be in scope.
#[macro_export]
macro_rules! functions {
    ($callback:path) => {
        $callback! {
            2.40 {
                C_Initialize(arguments: *mut c_void);
                C_Finalize(reserved: *mut c_void);
                C_GetInfo(info: *mut CK_INFO);
                C_GetFunctionList;
                C_GetSlotList(present: CK_BBOOL, slots: *mut CK_SLOT_ID, count: *mut CK_ULONG);
                C_GetSlotInfo(id: CK_SLOT_ID, info: *mut CK_SLOT_INFO);
                C_GetTokenInfo(id: CK_SLOT_ID, info: *mut CK_TOKEN_INFO);
                C_GetMechanismList(id: CK_SLOT_ID, mechanisms: *mut CK_MECHANISM_TYPE, count: *mut CK_ULONG);
                C_GetMechanismInfo(
                    id: CK_SLOT_ID, mechanism: CK_MECHANISM_TYPE, info: *mut CK_MECHANISM_INFO
                );
                C_InitToken(
                    id: CK_SLOT_ID, pin: *mut CK_UTF8CHAR, pin_len: CK_ULONG, label: *mut CK_UTF8CHAR
                );
                C_InitPIN(session: CK_SESSION_HANDLE, pin: *mut CK_UTF8CHAR, pin_len: CK_ULONG);
                C_SetPIN(
                    session: CK_SESSION_HANDLE, old: *mut CK_UTF8CHAR, old_len: CK_ULONG,
                    new: *mut CK_UTF8CHAR, new_len: CK_ULONG
                );
                C_OpenSession(
                    id: CK_SLOT_ID, flags: CK_FLAGS, application: *mut c_void, notify: CK_NOTIFY,
                    session: *mut CK_SESSION_HANDLE
                );
                C_CloseSession(session: CK_SESSION_HANDLE);
                C_CloseAllSessions(id: CK_SLOT_ID);
                C_GetSessionInfo(session: CK_SESSION_HANDLE, info: *mut CK_SESSION_INFO);
                C_GetOperationState(
                    session: CK_SESSION_HANDLE, output: *mut CK_BYTE, output_len: *mut CK_ULONG
                );
                C_SetOperationState(
                    session: CK_SESSION_HANDLE, state: *mut CK_BYTE, state_len: CK_ULONG,
                    encryption_key: CK_OBJECT_HANDLE, authentication_key: CK_OBJECT_HANDLE
                );
                C_Login(
                    session: CK_SESSION_HANDLE, user: CK_USER_TYPE, pin: *mut CK_UTF8CHAR, pin_len: CK_ULONG
                );
                C_Logout(session: CK_SESSION_HANDLE);
                C_CreateObject(
                    session: CK_SESSION_HANDLE, attributes: *mut CK_ATTRIBUTE, count: CK_ULONG,
                    created: *mut CK_OBJECT_HANDLE
                );
                C_CopyObject(
                    session: CK_SESSION_HANDLE, original: CK_OBJECT_HANDLE, attributes: *mut CK_ATTRIBUTE,
                    count: CK_ULONG, created: *mut CK_OBJECT_HANDLE
                );
                C_DestroyObject(session: CK_SESSION_HANDLE, doomed: CK_OBJECT_HANDLE);
                C_GetObjectSize(session: CK_SESSION_HANDLE, measured: CK_OBJECT_HANDLE, size: *mut CK_ULONG);
                C_GetAttributeValue(
                    session: CK_SESSION_HANDLE, read: CK_OBJECT_HANDLE, attributes: *mut CK_ATTRIBUTE,
                    count: CK_ULONG
                );
                C_SetAttributeValue(
                    session: CK_SESSION_HANDLE, changed: CK_OBJECT_HANDLE, attributes: *mut CK_ATTRIBUTE,
                    count: CK_ULONG
                );
                C_FindObjectsInit(session: CK_SESSION_HANDLE, attributes: *mut CK_ATTRIBUTE, count: CK_ULONG);
                C_FindObjects(
                    session: CK_SESSION_HANDLE, objects: *mut CK_OBJECT_HANDLE, max: CK_ULONG,
                    count: *mut CK_ULONG
                );
                C_FindObjectsFinal(session: CK_SESSION_HANDLE);
                C_EncryptInit(
                    session: CK_SESSION_HANDLE, mechanism: *mut CK_MECHANISM, key: CK_OBJECT_HANDLE
                );
                C_Encrypt(
                    session: CK_SESSION_HANDLE, input: *mut CK_BYTE, input_len: CK_ULONG,
                    output: *mut CK_BYTE, output_len: *mut CK_ULONG
                );
                C_EncryptUpdate(
                    session: CK_SESSION_HANDLE, input: *mut CK_BYTE, input_len: CK_ULONG,
                    output: *mut CK_BYTE, output_len: *mut CK_ULONG
                );
                C_EncryptFinal(session: CK_SESSION_HANDLE, output: *mut CK_BYTE, output_len: *mut CK_ULONG);
                C_DecryptInit(
                    session: CK_SESSION_HANDLE, mechanism: *mut CK_MECHANISM, key: CK_OBJECT_HANDLE
                );
                C_Decrypt(
                    session: CK_SESSION_HANDLE, input: *mut CK_BYTE, input_len: CK_ULONG,
                    output: *mut CK_BYTE, output_len: *mut CK_ULONG
                );
                C_DecryptUpdate(
                    session: CK_SESSION_HANDLE, input: *mut CK_BYTE, input_len: CK_ULONG,
                    output: *mut CK_BYTE, output_len: *mut CK_ULONG
                );
                C_DecryptFinal(session: CK_SESSION_HANDLE, output: *mut CK_BYTE, output_len: *mut CK_ULONG);
                C_DigestInit(session: CK_SESSION_HANDLE, mechanism: *mut CK_MECHANISM);
                C_Digest(
                    session: CK_SESSION_HANDLE, input: *mut CK_BYTE, input_len: CK_ULONG,
                    output: *mut CK_BYTE, output_len: *mut CK_ULONG
                );
                C_DigestUpdate(session: CK_SESSION_HANDLE, input: *mut CK_BYTE, input_len: CK_ULONG);
                C_DigestKey(session: CK_SESSION_HANDLE, key: CK_OBJECT_HANDLE);
                C_DigestFinal(session: CK_SESSION_HANDLE, output: *mut CK_BYTE, output_len: *mut CK_ULONG);
                C_SignInit(session: CK_SESSION_HANDLE, mechanism: *mut CK_MECHANISM, key: CK_OBJECT_HANDLE);
                C_Sign(
                    session: CK_SESSION_HANDLE, data: *mut CK_BYTE, data_len: CK_ULONG,
                    signature: *mut CK_BYTE, signature_len: *mut CK_ULONG
                );
                C_SignUpdate(session: CK_SESSION_HANDLE, input: *mut CK_BYTE, input_len: CK_ULONG);
                C_SignFinal(
                    session: CK_SESSION_HANDLE, signature: *mut CK_BYTE, signature_len: *mut CK_ULONG
                );
                C_SignRecoverInit(
                    session: CK_SESSION_HANDLE, mechanism: *mut CK_MECHANISM, key: CK_OBJECT_HANDLE
                );
                C_SignRecover(
                    session: CK_SESSION_HANDLE, input: *mut CK_BYTE, input_len: CK_ULONG,
                    output: *mut CK_BYTE, output_len: *mut CK_ULONG
                );
                C_VerifyInit(session: CK_SESSION_HANDLE, mechanism: *mut CK_MECHANISM, key: CK_OBJECT_HANDLE);
                C_Verify(
                    session: CK_SESSION_HANDLE, data: *mut CK_BYTE, data_len: CK_ULONG,
                    signature: *mut CK_BYTE, signature_len: CK_ULONG
                );
                C_VerifyUpdate(session: CK_SESSION_HANDLE, input: *mut CK_BYTE, input_len: CK_ULONG);
                C_VerifyFinal(session: CK_SESSION_HANDLE, input: *mut CK_BYTE, input_len: CK_ULONG);
                C_VerifyRecoverInit(
                    session: CK_SESSION_HANDLE, mechanism: *mut CK_MECHANISM, key: CK_OBJECT_HANDLE
                );
                C_VerifyRecover(
                    session: CK_SESSION_HANDLE, input: *mut CK_BYTE, input_len: CK_ULONG,
                    output: *mut CK_BYTE, output_len: *mut CK_ULONG
                );
                C_DigestEncryptUpdate(
                    session: CK_SESSION_HANDLE, input: *mut CK_BYTE, input_len: CK_ULONG,
                    output: *mut CK_BYTE, output_len: *mut CK_ULONG
                );
                C_DecryptDigestUpdate(
                    session: CK_SESSION_HANDLE, input: *mut CK_BYTE, input_len: CK_ULONG,
                    output: *mut CK_BYTE, output_len: *mut CK_ULONG
                );
                C_SignEncryptUpdate(
                    session: CK_SESSION_HANDLE, input: *mut CK_BYTE, input_len: CK_ULONG,
                    output: *mut CK_BYTE, output_len: *mut CK_ULONG
                );
                C_DecryptVerifyUpdate(
                    session: CK_SESSION_HANDLE, input: *mut CK_BYTE, input_len: CK_ULONG,
                    output: *mut CK_BYTE, output_len: *mut CK_ULONG
                );
                C_GenerateKey(
                    session: CK_SESSION_HANDLE, mechanism: *mut CK_MECHANISM, attributes: *mut CK_ATTRIBUTE,
                    count: CK_ULONG, key: *mut CK_OBJECT_HANDLE
                );
                C_GenerateKeyPair(
                    session: CK_SESSION_HANDLE, mechanism: *mut CK_MECHANISM, public: *mut CK_ATTRIBUTE,
                    public_count: CK_ULONG, private: *mut CK_ATTRIBUTE, private_count: CK_ULONG,
                    public_key: *mut CK_OBJECT_HANDLE, private_key: *mut CK_OBJECT_HANDLE
                );
                C_WrapKey(
                    session: CK_SESSION_HANDLE, mechanism: *mut CK_MECHANISM, wrapping: CK_OBJECT_HANDLE,
                    key: CK_OBJECT_HANDLE, wrapped: *mut CK_BYTE, wrapped_len: *mut CK_ULONG
                );
                C_UnwrapKey(
                    session: CK_SESSION_HANDLE, mechanism: *mut CK_MECHANISM, unwrapping: CK_OBJECT_HANDLE,
                    wrapped: *mut CK_BYTE, wrapped_len: CK_ULONG, attributes: *mut CK_ATTRIBUTE,
                    count: CK_ULONG, key: *mut CK_OBJECT_HANDLE
                );
                C_DeriveKey(
                    session: CK_SESSION_HANDLE, mechanism: *mut CK_MECHANISM, base: CK_OBJECT_HANDLE,
                    attributes: *mut CK_ATTRIBUTE, count: CK_ULONG, key: *mut CK_OBJECT_HANDLE
                );
                C_SeedRandom(session: CK_SESSION_HANDLE, input: *mut CK_BYTE, input_len: CK_ULONG);
                C_GenerateRandom(session: CK_SESSION_HANDLE, random: *mut CK_BYTE, random_len: CK_ULONG);
                C_GetFunctionStatus(session: CK_SESSION_HANDLE);
                C_CancelFunction(session: CK_SESSION_HANDLE);
                C_WaitForSlotEvent(flags: CK_FLAGS, slot: *mut CK_SLOT_ID, reserved: *mut c_void);
            }
            3.0 {
                C_GetInterfaceList;
                C_GetInterface;
                C_LoginUser(
                    session: CK_SESSION_HANDLE, user: CK_USER_TYPE, pin: *mut CK_UTF8CHAR, pin_len: CK_ULONG,
                    name: *mut CK_UTF8CHAR, name_len: CK_ULONG
                );
                C_SessionCancel(session: CK_SESSION_HANDLE, flags: CK_FLAGS);
                C_MessageEncryptInit(
                    session: CK_SESSION_HANDLE, mechanism: *mut CK_MECHANISM, key: CK_OBJECT_HANDLE
                );
                C_EncryptMessage(
                    session: CK_SESSION_HANDLE, parameter: *mut c_void, parameter_len: CK_ULONG,
                    aad: *mut CK_BYTE, aad_len: CK_ULONG, input: *mut CK_BYTE, input_len: CK_ULONG,
                    output: *mut CK_BYTE, output_len: *mut CK_ULONG
                );
                C_EncryptMessageBegin(
                    session: CK_SESSION_HANDLE, parameter: *mut c_void, parameter_len: CK_ULONG,
                    aad: *mut CK_BYTE, aad_len: CK_ULONG
                );
                C_EncryptMessageNext(
                    session: CK_SESSION_HANDLE, parameter: *mut c_void, parameter_len: CK_ULONG,
                    input: *mut CK_BYTE, input_len: CK_ULONG, output: *mut CK_BYTE,
                    output_len: *mut CK_ULONG, flags: CK_FLAGS
                );
                C_MessageEncryptFinal(session: CK_SESSION_HANDLE);
                C_MessageDecryptInit(
                    session: CK_SESSION_HANDLE, mechanism: *mut CK_MECHANISM, key: CK_OBJECT_HANDLE
                );
                C_DecryptMessage(
                    session: CK_SESSION_HANDLE, parameter: *mut c_void, parameter_len: CK_ULONG,
                    aad: *mut CK_BYTE, aad_len: CK_ULONG, input: *mut CK_BYTE, input_len: CK_ULONG,
                    output: *mut CK_BYTE, output_len: *mut CK_ULONG
                );
                C_DecryptMessageBegin(
                    session: CK_SESSION_HANDLE, parameter: *mut c_void, parameter_len: CK_ULONG,
                    aad: *mut CK_BYTE, aad_len: CK_ULONG
                );
                C_DecryptMessageNext(
                    session: CK_SESSION_HANDLE, parameter: *mut c_void, parameter_len: CK_ULONG,
                    input: *mut CK_BYTE, input_len: CK_ULONG, output: *mut CK_BYTE,
                    output_len: *mut CK_ULONG, flags: CK_FLAGS
                );
                C_MessageDecryptFinal(session: CK_SESSION_HANDLE);
                C_MessageSignInit(
                    session: CK_SESSION_HANDLE, mechanism: *mut CK_MECHANISM, key: CK_OBJECT_HANDLE
                );
                C_SignMessage(
                    session: CK_SESSION_HANDLE, parameter: *mut c_void, parameter_len: CK_ULONG,
                    data: *mut CK_BYTE, data_len: CK_ULONG, signature: *mut CK_BYTE,
                    signature_len: *mut CK_ULONG
                );
                C_SignMessageBegin(
                    session: CK_SESSION_HANDLE, parameter: *mut c_void, parameter_len: CK_ULONG
                );
                C_SignMessageNext(
                    session: CK_SESSION_HANDLE, parameter: *mut c_void, parameter_len: CK_ULONG,
                    part: *mut CK_BYTE, part_len: CK_ULONG, signature: *mut CK_BYTE,
                    signature_len: *mut CK_ULONG
                );
                C_MessageSignFinal(session: CK_SESSION_HANDLE);
                C_MessageVerifyInit(
                    session: CK_SESSION_HANDLE, mechanism: *mut CK_MECHANISM, key: CK_OBJECT_HANDLE
                );
                C_VerifyMessage(
                    session: CK_SESSION_HANDLE, parameter: *mut c_void, parameter_len: CK_ULONG,
                    data: *mut CK_BYTE, data_len: CK_ULONG, signature: *mut CK_BYTE, signature_len: CK_ULONG
                );
                C_VerifyMessageBegin(
                    session: CK_SESSION_HANDLE, parameter: *mut c_void, parameter_len: CK_ULONG
                );
                C_VerifyMessageNext(
                    session: CK_SESSION_HANDLE, parameter: *mut c_void, parameter_len: CK_ULONG,
                    part: *mut CK_BYTE, part_len: CK_ULONG, signature: *mut CK_BYTE, signature_len: CK_ULONG
                );
                C_MessageVerifyFinal(session: CK_SESSION_HANDLE);
            }
            3.2 {
                C_EncapsulateKey(
                    session: CK_SESSION_HANDLE, mechanism: *mut CK_MECHANISM, public: CK_OBJECT_HANDLE,
                    attributes: *mut CK_ATTRIBUTE, count: CK_ULONG, ciphertext: *mut CK_BYTE,
                    ciphertext_len: *mut CK_ULONG, key: *mut CK_OBJECT_HANDLE
                );
                C_DecapsulateKey(
                    session: CK_SESSION_HANDLE, mechanism: *mut CK_MECHANISM, private: CK_OBJECT_HANDLE,
                    attributes: *mut CK_ATTRIBUTE, count: CK_ULONG, ciphertext: *mut CK_BYTE,
                    ciphertext_len: CK_ULONG, key: *mut CK_OBJECT_HANDLE
                );
                C_VerifySignatureInit(
                    session: CK_SESSION_HANDLE, mechanism: *mut CK_MECHANISM, key: CK_OBJECT_HANDLE,
                    signature: *mut CK_BYTE, signature_len: CK_ULONG
                );
                C_VerifySignature(session: CK_SESSION_HANDLE, input: *mut CK_BYTE, input_len: CK_ULONG);
                C_VerifySignatureUpdate(session: CK_SESSION_HANDLE, input: *mut CK_BYTE, input_len: CK_ULONG);
                C_VerifySignatureFinal(session: CK_SESSION_HANDLE);
                C_GetSessionValidationFlags(
                    session: CK_SESSION_HANDLE, kind: CK_SESSION_VALIDATION_FLAGS_TYPE, flags: *mut CK_FLAGS
                );
                C_AsyncComplete(
                    session: CK_SESSION_HANDLE, name: *mut CK_UTF8CHAR, result: *mut CK_ASYNC_DATA
                );
                C_AsyncGetID(session: CK_SESSION_HANDLE, name: *mut CK_UTF8CHAR, id: *mut CK_ULONG);
                C_AsyncJoin(
                    session: CK_SESSION_HANDLE, name: *mut CK_UTF8CHAR, id: CK_ULONG, buffer: *mut CK_BYTE,
                    buffer_len: CK_ULONG
                );
                C_WrapKeyAuthenticated(
                    session: CK_SESSION_HANDLE, mechanism: *mut CK_MECHANISM, wrapping: CK_OBJECT_HANDLE,
                    key: CK_OBJECT_HANDLE, aad: *mut CK_BYTE, aad_len: CK_ULONG, wrapped: *mut CK_BYTE,
                    wrapped_len: *mut CK_ULONG
                );
                C_UnwrapKeyAuthenticated(
                    session: CK_SESSION_HANDLE, mechanism: *mut CK_MECHANISM, unwrapping: CK_OBJECT_HANDLE,
                    wrapped: *mut CK_BYTE, wrapped_len: CK_ULONG, attributes: *mut CK_ATTRIBUTE,
                    count: CK_ULONG, aad: *mut CK_BYTE, aad_len: CK_ULONG, key: *mut CK_OBJECT_HANDLE
                );
            }
        }
    };
}

/// Defines the function lists, the interfaces, and the three functions that return them, which may
/// be called before `C_Initialize`. The other functions must be in scope.
///
/// No flag of an interface is set: `CKF_INTERFACE_FORK_SAFE` promises that a forked child continues
/// with copies of its parent's sessions and logins. Here a child starts without them.
#[macro_export]
macro_rules! function_lists {
    () => {
        $crate::functions!($crate::function_lists);
    };
    (
        2.40 { $($first:ident $(($($first_arguments:tt)*))?;)* }
        3.0 { $($second:ident $(($($second_arguments:tt)*))?;)* }
        3.2 { $($third:ident $(($($third_arguments:tt)*))?;)* }
    ) => {
        static LIST_2_40: ::cryptoki_sys::CK_FUNCTION_LIST = ::cryptoki_sys::CK_FUNCTION_LIST {
            version: ::cryptoki_sys::CK_VERSION { major: 2, minor: 40 },
            $($first: Some($first),)*
        };
        static LIST_3_0: ::cryptoki_sys::CK_FUNCTION_LIST_3_0 = ::cryptoki_sys::CK_FUNCTION_LIST_3_0 {
            version: ::cryptoki_sys::CK_VERSION { major: 3, minor: 0 },
            $($first: Some($first),)* $($second: Some($second),)*
        };
        static LIST_3_2: ::cryptoki_sys::CK_FUNCTION_LIST_3_2 = ::cryptoki_sys::CK_FUNCTION_LIST_3_2 {
            version: ::cryptoki_sys::CK_VERSION { major: 3, minor: 2 },
            $($first: Some($first),)* $($second: Some($second),)* $($third: Some($third),)*
        };

        /// The interfaces, the default first.
        static INTERFACES: Interfaces = Interfaces([
            standard(::std::ptr::from_ref(&LIST_3_2).cast()),
            standard(::std::ptr::from_ref(&LIST_3_0).cast()),
            standard(::std::ptr::from_ref(&LIST_2_40).cast()),
        ]);

        struct Interfaces([::cryptoki_sys::CK_INTERFACE; 3]);

        // SAFETY: the pointers point to constants of this library. PKCS#11 3.2, C_GetInterface: "no
        // attempt should be made to write to this memory".
        unsafe impl Sync for Interfaces {}

        /// The name of the standard's interfaces (PKCS#11 3.2, CK_INTERFACE).
        const STANDARD: &::std::ffi::CStr = c"PKCS 11";

        const fn standard(functions: *const ::std::ffi::c_void) -> ::cryptoki_sys::CK_INTERFACE {
            ::cryptoki_sys::CK_INTERFACE {
                pInterfaceName: STANDARD.as_ptr().cast_mut().cast(),
                pFunctionList: functions.cast_mut(),
                flags: 0,
            }
        }

        /// Returns the function list of PKCS#11 2.40. May be called before `C_Initialize`.
        ///
        /// # Safety
        ///
        /// `functions` is `NULL` or writable.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn C_GetFunctionList(
            functions: *mut *mut ::cryptoki_sys::CK_FUNCTION_LIST,
        ) -> ::cryptoki_sys::CK_RV {
            if functions.is_null() {
                return ::cryptoki_sys::CKR_ARGUMENTS_BAD;
            }
            // SAFETY: not null; the contract of PKCS#11 for ppFunctionList.
            unsafe { functions.write_unaligned(::std::ptr::from_ref(&LIST_2_40).cast_mut()) };
            ::cryptoki_sys::CKR_OK
        }

        /// Returns the interfaces of this module, the newest first. May be called before
        /// `C_Initialize`.
        ///
        /// # Safety
        ///
        /// `count` is `NULL` or readable and writable; `interfaces` is `NULL` or writable for
        /// `*count` interfaces.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn C_GetInterfaceList(
            interfaces: *mut ::cryptoki_sys::CK_INTERFACE,
            count: *mut ::cryptoki_sys::CK_ULONG,
        ) -> ::cryptoki_sys::CK_RV {
            if count.is_null() {
                return ::cryptoki_sys::CKR_ARGUMENTS_BAD;
            }
            // The number of the C interface has 32 bits on Windows.
            let count = count.cast::<::std::ffi::c_ulong>();
            let needed = INTERFACES.0.len() as ::std::ffi::c_ulong;
            // SAFETY: not null; the contract of PKCS#11 for pInterfaceList and pulCount.
            unsafe {
                let room = count.read_unaligned();
                count.write_unaligned(needed);
                if interfaces.is_null() {
                    return ::cryptoki_sys::CKR_OK;
                }
                if room < needed {
                    return ::cryptoki_sys::CKR_BUFFER_TOO_SMALL;
                }
                for (index, one) in INTERFACES.0.iter().enumerate() {
                    interfaces.add(index).write_unaligned(*one);
                }
            }
            ::cryptoki_sys::CKR_OK
        }

        /// Returns the first interface with this name, version and flags. May be called before
        /// `C_Initialize`. The specification has no code of its own for an unknown interface.
        ///
        /// # Safety
        ///
        /// `name` is `NULL` or ends with NUL, `version` is `NULL` or readable, `interface` is
        /// `NULL` or writable.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn C_GetInterface(
            name: *mut ::cryptoki_sys::CK_UTF8CHAR,
            version: *mut ::cryptoki_sys::CK_VERSION,
            interface: *mut *mut ::cryptoki_sys::CK_INTERFACE,
            flags: ::cryptoki_sys::CK_FLAGS,
        ) -> ::cryptoki_sys::CK_RV {
            if interface.is_null() {
                return ::cryptoki_sys::CKR_ARGUMENTS_BAD;
            }
            // SAFETY: the contract of PKCS#11 for pInterfaceName; not null.
            let named = name.is_null() || unsafe { ::std::ffi::CStr::from_ptr(name.cast()) } == STANDARD;
            // SAFETY: the contract of PKCS#11 for pVersion; a version needs no alignment.
            let wanted = unsafe { version.as_ref() }.map(|version| (version.major, version.minor));
            let fits = |one: &&::cryptoki_sys::CK_INTERFACE| {
                // SAFETY: the lists are constants, and each begins with its version.
                let version = unsafe { one.pFunctionList.cast::<::cryptoki_sys::CK_VERSION>().read() };
                one.flags & (flags as ::std::ffi::c_ulong) == flags as ::std::ffi::c_ulong
                    && wanted.is_none_or(|wanted| wanted == (version.major, version.minor))
            };
            match INTERFACES.0.iter().filter(|_| named).find(fits) {
                Some(found) => {
                    // SAFETY: not null; the contract of PKCS#11 for ppInterface.
                    unsafe { interface.write_unaligned(::std::ptr::from_ref(found).cast_mut()) };
                    ::cryptoki_sys::CKR_OK
                }
                None => ::cryptoki_sys::CKR_ARGUMENTS_BAD,
            }
        }
    };
}
