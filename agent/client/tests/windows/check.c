/* The client module on Windows, as a program with the standard's header sees it: every exported function, structs without
 * padding and numbers of 32 bits in both directions, NULL and hostile lengths, eight threads, and an agent that ends.
 * `run` builds and starts it. */
#include "check.h"

/* The functions in the order of the lists. */
#define FUNCTIONS(X) \
    X(C_Initialize) X(C_Finalize) X(C_GetInfo) X(C_GetFunctionList) X(C_GetSlotList) X(C_GetSlotInfo) \
    X(C_GetTokenInfo) X(C_GetMechanismList) X(C_GetMechanismInfo) X(C_InitToken) X(C_InitPIN) X(C_SetPIN) \
    X(C_OpenSession) X(C_CloseSession) X(C_CloseAllSessions) X(C_GetSessionInfo) X(C_GetOperationState) \
    X(C_SetOperationState) X(C_Login) X(C_Logout) X(C_CreateObject) X(C_CopyObject) X(C_DestroyObject) \
    X(C_GetObjectSize) X(C_GetAttributeValue) X(C_SetAttributeValue) X(C_FindObjectsInit) X(C_FindObjects) \
    X(C_FindObjectsFinal) X(C_EncryptInit) X(C_Encrypt) X(C_EncryptUpdate) X(C_EncryptFinal) X(C_DecryptInit) \
    X(C_Decrypt) X(C_DecryptUpdate) X(C_DecryptFinal) X(C_DigestInit) X(C_Digest) X(C_DigestUpdate) X(C_DigestKey) \
    X(C_DigestFinal) X(C_SignInit) X(C_Sign) X(C_SignUpdate) X(C_SignFinal) X(C_SignRecoverInit) X(C_SignRecover) \
    X(C_VerifyInit) X(C_Verify) X(C_VerifyUpdate) X(C_VerifyFinal) X(C_VerifyRecoverInit) X(C_VerifyRecover) \
    X(C_DigestEncryptUpdate) X(C_DecryptDigestUpdate) X(C_SignEncryptUpdate) X(C_DecryptVerifyUpdate) \
    X(C_GenerateKey) X(C_GenerateKeyPair) X(C_WrapKey) X(C_UnwrapKey) X(C_DeriveKey) X(C_SeedRandom) \
    X(C_GenerateRandom) X(C_GetFunctionStatus) X(C_CancelFunction) X(C_WaitForSlotEvent) X(C_GetInterfaceList) \
    X(C_GetInterface) X(C_LoginUser) X(C_SessionCancel) X(C_MessageEncryptInit) X(C_EncryptMessage) \
    X(C_EncryptMessageBegin) X(C_EncryptMessageNext) X(C_MessageEncryptFinal) X(C_MessageDecryptInit) \
    X(C_DecryptMessage) X(C_DecryptMessageBegin) X(C_DecryptMessageNext) X(C_MessageDecryptFinal) \
    X(C_MessageSignInit) X(C_SignMessage) X(C_SignMessageBegin) X(C_SignMessageNext) X(C_MessageSignFinal) \
    X(C_MessageVerifyInit) X(C_VerifyMessage) X(C_VerifyMessageBegin) X(C_VerifyMessageNext) \
    X(C_MessageVerifyFinal) X(C_EncapsulateKey) X(C_DecapsulateKey) X(C_VerifySignatureInit) X(C_VerifySignature) \
    X(C_VerifySignatureUpdate) X(C_VerifySignatureFinal) X(C_GetSessionValidationFlags) X(C_AsyncComplete) \
    X(C_AsyncGetID) X(C_AsyncJoin) X(C_WrapKeyAuthenticated) X(C_UnwrapKeyAuthenticated)

#define SIZE(type, size) _Static_assert(sizeof(type) == (size), #type)
SIZE(CK_ULONG, 4);
SIZE(CK_ATTRIBUTE, 16);
SIZE(CK_MECHANISM, 16);
SIZE(CK_INFO, 72);
SIZE(CK_SLOT_INFO, 104);
SIZE(CK_TOKEN_INFO, 160);
SIZE(CK_SESSION_INFO, 16);
SIZE(CK_MECHANISM_INFO, 12);
SIZE(CK_C_INITIALIZE_ARGS, 44);
SIZE(CK_INTERFACE, 20);
SIZE(CK_FUNCTION_LIST, 2 + 68 * 8);
SIZE(CK_FUNCTION_LIST_3_0, 2 + 92 * 8);
SIZE(CK_FUNCTION_LIST_3_2, 2 + 104 * 8);
SIZE(CK_GCM_PARAMS, 32);
SIZE(CK_GCM_MESSAGE_PARAMS, 32);
SIZE(CK_RSA_PKCS_PSS_PARAMS, 12);

static const char *const NAMES[] = {
#define NAME(name) #name,
    FUNCTIONS(NAME)
};

/* A function of any type: the caller of a function removes its arguments, so that more than it takes are allowed. */
typedef CK_RV (*Any)(size_t, size_t, size_t, size_t, size_t, size_t, size_t, size_t, size_t, size_t, size_t, size_t);

static CK_UTF8CHAR SO[] = "11111111", LABEL[] = "windows                         ";
static CK_BYTE P256[] = {0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07};
static CK_BBOOL no = CK_FALSE;
static const char *folder;

static Any any(const char *name) {
    Any found = (Any)(void *)GetProcAddress(library, name);
    if (!found) printf("%s is not exported\n", name), exit(1);
    return found;
}

static void write_file(const char *name, const void *bytes, size_t len) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    CHECK(file && fwrite(bytes, 1, len, file) == len && fclose(file) == 0);
}

/* Every function is exported, is in its list at the place of the standard, and refuses a call before C_Initialize. */
static void exports(void) {
    CK_RV (*list)(CK_FUNCTION_LIST **) = (void *)any("C_GetFunctionList");
    CK_RV (*interfaces)(CK_INTERFACE *, CK_ULONG *) = (void *)any("C_GetInterfaceList");
    CK_RV (*get)(CK_UTF8CHAR *, CK_VERSION *, CK_INTERFACE **, CK_FLAGS) = (void *)any("C_GetInterface");
    CK_FUNCTION_LIST *first;
    CK_INTERFACE all[3], *one;
    /* What lies behind the number is not the module's. */
    CK_ULONG count[2] = {0, 77};
    OK(interfaces(NULL, count));
    CHECK(count[0] == 3 && count[1] == 77);
    count[0] = 2;
    EXPECT(interfaces(all, count), CKR_BUFFER_TOO_SMALL);
    OK(interfaces(all, count));
    OK(list(&first));
    EXPECT(list(NULL), CKR_ARGUMENTS_BAD);
    CK_ULONG lengths[] = {104, 92, 68};
    for (int index = 0; index < 3; index++) {
        CHECK(is((char *)all[index].pInterfaceName, "PKCS 11") && all[index].flags == 0);
        CK_VERSION *version = all[index].pFunctionList;
        OK(get((CK_UTF8CHAR *)"PKCS 11", version, &one, 0));
        CHECK(one->pFunctionList == all[index].pFunctionList);
        for (CK_ULONG at = 0; at < lengths[index]; at++) {
            void *entry;
            memcpy(&entry, (char *)all[index].pFunctionList + 2 + 8 * at, 8);
            if (entry != (void *)any(NAMES[at])) printf("%s has another entry\n", NAMES[at]), exit(1);
        }
    }
    CHECK(all[2].pFunctionList == (void *)first);
    EXPECT(get(NULL, NULL, &one, CKF_INTERFACE_FORK_SAFE), CKR_ARGUMENTS_BAD);
    OK(get(NULL, NULL, &one, 0));
    p11 = one->pFunctionList;
    CHECK(p11->version.major == 3 && p11->version.minor == 2);
    for (CK_ULONG at = 0; at < COUNT(NAMES); at++) {
        const char *name = NAMES[at];
        if (is(name, "C_Initialize") || strncmp(name, "C_GetFunctionList", 17) == 0 || strncmp(name, "C_GetInterface", 14) == 0)
            continue;
        expect_at(__LINE__, name, any(name)(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), CKR_CRYPTOKI_NOT_INITIALIZED);
    }
}

static CK_SESSION_HANDLE open_session(CK_SLOT_ID slot) {
    CK_SESSION_HANDLE session[2] = {0, 77};
    OK(p11->C_OpenSession(slot, CKF_SERIAL_SESSION | CKF_RW_SESSION, NULL, NULL, session));
    CHECK(session[0] != 0 && session[1] == 77);
    return session[0];
}

/* Calls every function with NULL and 0, first without and then with a session or slot. */
static void nothing(CK_SLOT_ID slot) {
    static const char *const POINTERS[] = {"C_GetInfo", "C_GetFunctionList", "C_GetInterfaceList", "C_GetInterface"};
    for (CK_ULONG at = 0; at < COUNT(POINTERS); at++)
        EXPECT(any(POINTERS[at])(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0) & 0xffffffff, CKR_ARGUMENTS_BAD);
    for (int with_session = 0; with_session < 2; with_session++)
        for (CK_ULONG at = 0; at < COUNT(NAMES); at++) {
            const char *name = NAMES[at];
            int skips = is(name, "C_Initialize") || is(name, "C_Finalize") || is(name, "C_WaitForSlotEvent");
            for (CK_ULONG pointer = 0; pointer < COUNT(POINTERS); pointer++) skips |= is(name, POINTERS[pointer]);
            if (skips) continue;
            CK_SESSION_HANDLE session = with_session ? open_session(slot) : 0;
            /* The upper half of a number is undefined. */
            any(name)(session | 0xdeadbeef00000000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
            if (session) p11->C_CloseSession(session);
        }
    p11->C_CloseAllSessions(slot);
}

static CK_SLOT_ID first_slot(CK_BBOOL with_token) {
    CK_SLOT_ID slots[8];
    CK_ULONG count = 0;
    OK(p11->C_GetSlotList(with_token, NULL, &count));
    CHECK(count >= 1 && count < COUNT(slots));
    OK(p11->C_GetSlotList(with_token, slots, &count));
    return slots[0];
}

static CK_SLOT_ID make_token(void) {
    CK_SLOT_ID slot = first_slot(CK_FALSE);
    struct { CK_TOKEN_INFO info; CK_BYTE guard[8]; } token;
    memset(&token, 77, sizeof token);
    OK(p11->C_InitToken(slot, SO, 8, LABEL));
    CK_SESSION_HANDLE session = open_session(slot);
    OK(p11->C_Login(session, CKU_SO, SO, 8));
    OK(p11->C_InitPIN(session, USER, 8));
    OK(p11->C_Logout(session));
    OK(p11->C_Login(session, CKU_USER, USER, 8));
    OK(p11->C_GetTokenInfo(slot, &token.info));
    CHECK(memcmp(token.info.label, LABEL, 32) == 0 && token.info.flags & CKF_USER_PIN_INITIALIZED);
    CHECK(token.info.ulSessionCount == 1 && token.info.ulMinPinLen >= 4 && token.guard[0] == 77 && token.guard[7] == 77);
    return slot;
}

/* Attributes with numbers, lists of numbers and templates go there and come back. */
static void templates(CK_SESSION_HANDLE session) {
    CK_OBJECT_CLASS secret = CKO_SECRET_KEY, class = 0;
    CK_KEY_TYPE aes = CKK_AES, type = 0;
    CK_ULONG len = 32, read_len[2] = {0, 77}, eight[2] = {CKO_SECRET_KEY, 0};
    CK_MECHANISM_TYPE allowed[] = {CKM_AES_GCM, CKM_AES_CMAC_GENERAL}, read_allowed[2] = {0, 0};
    CK_ATTRIBUTE inner[] = {{CKA_CLASS, &secret, 4}, {CKA_KEY_TYPE, &aes, 4}, {CKA_EXTRACTABLE, &yes, 1}};
    CK_ATTRIBUTE template[] = {
        {CKA_VALUE_LEN, &len, 4}, {CKA_ALLOWED_MECHANISMS, allowed, sizeof allowed}, {CKA_WRAP_TEMPLATE, inner, sizeof inner},
        {CKA_ENCRYPT, &yes, 1}, {CKA_DECRYPT, &yes, 1}, {CKA_SIGN, &yes, 1}, {CKA_VERIFY, &yes, 1}, {CKA_LABEL, "aes", 3},
    };
    CK_MECHANISM make = {CKM_AES_KEY_GEN, NULL, 0};
    CK_OBJECT_HANDLE key[2] = {0, 77}, found[4];
    OK(p11->C_GenerateKey(session, &make, template, COUNT(template), key));
    CHECK(key[0] != 0 && key[1] == 77);

    CK_ATTRIBUTE lengths[] = {{CKA_CLASS, NULL, 0}, {CKA_ALLOWED_MECHANISMS, NULL, 0}, {CKA_WRAP_TEMPLATE, NULL, 0}, {CKA_LABEL, NULL, 0}};
    OK(p11->C_GetAttributeValue(session, key[0], lengths, COUNT(lengths)));
    CHECK(lengths[0].ulValueLen == 4 && lengths[1].ulValueLen == 8 && lengths[2].ulValueLen == 3 * 16 && lengths[3].ulValueLen == 3);
    CK_ATTRIBUTE nested[3] = {{0}};
    CK_ATTRIBUTE values[] = {
        {CKA_CLASS, &class, 4}, {CKA_KEY_TYPE, &type, 4}, {CKA_VALUE_LEN, read_len, 4},
        {CKA_ALLOWED_MECHANISMS, read_allowed, sizeof read_allowed}, {CKA_WRAP_TEMPLATE, nested, sizeof nested},
    };
    OK(p11->C_GetAttributeValue(session, key[0], values, COUNT(values)));
    CHECK(class == CKO_SECRET_KEY && type == CKK_AES && read_len[0] == 32 && read_len[1] == 77);
    CHECK(values[2].ulValueLen == 4 && memcmp(allowed, read_allowed, sizeof allowed) == 0);
    for (int index = 0; index < 3; index++) {
        CHECK(nested[index].ulValueLen == (nested[index].type == CKA_EXTRACTABLE ? 1 : 4));
        nested[index].pValue = calloc(1, 4);
    }
    OK(p11->C_GetAttributeValue(session, key[0], values + 4, 1));
    for (int index = 0; index < 3; index++)
        if (nested[index].type == CKA_KEY_TYPE) CHECK(*(CK_ULONG *)nested[index].pValue == CKK_AES);

    /* Wrong lengths are the application's, whatever they are in messages. */
    CK_ATTRIBUTE small = {CKA_CLASS, &class, 3}, much = {CKA_LABEL, read_allowed, 0xfffffff0}, secret_value = {CKA_VALUE, read_len, 4};
    EXPECT(p11->C_GetAttributeValue(session, key[0], &small, 1), CKR_BUFFER_TOO_SMALL);
    CHECK(small.ulValueLen == CK_UNAVAILABLE_INFORMATION);
    OK(p11->C_GetAttributeValue(session, key[0], &much, 1));
    CHECK(much.ulValueLen == 3 && memcmp(read_allowed, "aes", 3) == 0);
    EXPECT(p11->C_GetAttributeValue(session, key[0], &secret_value, 1), CKR_ATTRIBUTE_SENSITIVE);
    CHECK(secret_value.ulValueLen == CK_UNAVAILABLE_INFORMATION);
    CK_ATTRIBUTE wrong = {CKA_CLASS, eight, 8};
    EXPECT(p11->C_CreateObject(session, &wrong, 1, found), CKR_ATTRIBUTE_VALUE_INVALID);
    EXPECT(p11->C_CreateObject(session, &wrong, 0xffffffff, found), CKR_ARGUMENTS_BAD);

    CK_ATTRIBUTE search[] = {{CKA_CLASS, &secret, 4}, {CKA_KEY_TYPE, &aes, 4}};
    CK_ULONG count[2] = {0, 77};
    OK(p11->C_FindObjectsInit(session, search, COUNT(search)));
    OK(p11->C_FindObjects(session, found, 4, count));
    CHECK(count[0] == 1 && count[1] == 77 && found[0] == key[0]);
    OK(p11->C_FindObjectsFinal(session));

    /* Parameters: a struct with pointers, one number, and the struct of a message, which the token fills. */
    CK_BYTE iv[12] = {1}, tag[16], text[32] = "a text", sealed[64], opened[64], nonce[12];
    CK_GCM_PARAMS gcm = {iv, sizeof iv, 96, (CK_BYTE *)"aad", 3, 128};
    CK_MECHANISM seal = {CKM_AES_GCM, &gcm, sizeof gcm}, wide = {CKM_AES_GCM, &gcm, 48};
    CK_ULONG sealed_len = sizeof sealed, opened_len = sizeof opened, mac_len = 8;
    EXPECT(p11->C_EncryptInit(session, &wide, key[0]), CKR_MECHANISM_PARAM_INVALID);
    OK(p11->C_EncryptInit(session, &seal, key[0]));
    OK(p11->C_Encrypt(session, text, sizeof text, sealed, &sealed_len));
    CHECK(sealed_len == sizeof text + 16);
    OK(p11->C_DecryptInit(session, &seal, key[0]));
    OK(p11->C_Decrypt(session, sealed, sealed_len, opened, &opened_len));
    CHECK(opened_len == sizeof text && memcmp(text, opened, sizeof text) == 0);
    CK_MECHANISM mac = {CKM_AES_CMAC_GENERAL, &mac_len, 4};
    CK_ULONG room[2] = {sizeof sealed, 77};
    OK(p11->C_SignInit(session, &mac, key[0]));
    OK(p11->C_Sign(session, text, sizeof text, sealed, room));
    CHECK(room[0] == 8 && room[1] == 77);
    CK_GCM_MESSAGE_PARAMS message = {nonce, sizeof nonce, 0, CKG_GENERATE, tag, 128};
    CK_MECHANISM messages = {CKM_AES_GCM, &message, sizeof message};
    memset(nonce, 0, sizeof nonce);
    OK(p11->C_MessageEncryptInit(session, &messages, key[0]));
    sealed_len = sizeof sealed;
    OK(p11->C_EncryptMessage(session, &message, sizeof message, NULL, 0, text, sizeof text, sealed, &sealed_len));
    OK(p11->C_MessageEncryptFinal(session));
    OK(p11->C_MessageDecryptInit(session, &messages, key[0]));
    OK(p11->C_DecryptMessage(session, &message, sizeof message, NULL, 0, sealed, sealed_len, opened, &opened_len));
    CHECK(memcmp(text, opened, sizeof text) == 0);
}

static void generate(CK_SESSION_HANDLE session, CK_OBJECT_HANDLE *public, CK_OBJECT_HANDLE *private) {
    CK_ATTRIBUTE of_public[] = {{CKA_EC_PARAMS, P256, sizeof P256}, {CKA_TOKEN, &yes, 1}, {CKA_PRIVATE, &no, 1}};
    CK_ATTRIBUTE of_private[] = {{CKA_TOKEN, &yes, 1}, {CKA_LABEL, "p256", 4}};
    CK_MECHANISM pair = {CKM_EC_KEY_PAIR_GEN, NULL, 0};
    OK(p11->C_GenerateKeyPair(session, &pair, of_public, COUNT(of_public), of_private, COUNT(of_private), public, private));
}

/* A mechanism whose parameter is optional, and parameters with pointers, some to other structs. */
static void parameters(CK_SESSION_HANDLE session, CK_OBJECT_HANDLE p256_public, CK_OBJECT_HANDLE p256_private) {
    CK_BYTE edwards[] = {0x06, 0x03, 0x2b, 0x65, 0x70}, data[32] = "data", bytes[256], opened[256], point[80], values[2][32];
    CK_ULONG len = sizeof bytes, opened_len = sizeof opened, bits = 2048, value_len = 32;
    CK_OBJECT_HANDLE public, private, keys[2], base;
    CK_ATTRIBUTE curve = {CKA_EC_PARAMS, edwards, sizeof edwards}, modulus = {CKA_MODULUS_BITS, &bits, 4};
    CK_MECHANISM pair = {CKM_EC_EDWARDS_KEY_PAIR_GEN, NULL, 0}, eddsa = {CKM_EDDSA, NULL, 0};
    OK(p11->C_GenerateKeyPair(session, &pair, &curve, 1, NULL, 0, &public, &private));
    OK(p11->C_SignInit(session, &eddsa, private));
    OK(p11->C_Sign(session, data, sizeof data, bytes, &len));
    CHECK(len == 64);
    OK(p11->C_VerifyInit(session, &eddsa, public));
    OK(p11->C_Verify(session, data, sizeof data, bytes, len));

    CK_RSA_PKCS_PSS_PARAMS pss = {CKM_SHA256, CKG_MGF1_SHA256, 32};
    CK_RSA_PKCS_OAEP_PARAMS oaep = {CKM_SHA256, CKG_MGF1_SHA256, CKZ_DATA_SPECIFIED, "label", 5};
    CK_MECHANISM rsa = {CKM_RSA_PKCS_KEY_PAIR_GEN, NULL, 0}, sign = {CKM_SHA256_RSA_PKCS_PSS, &pss, sizeof pss};
    CK_MECHANISM seal = {CKM_RSA_PKCS_OAEP, &oaep, sizeof oaep};
    OK(p11->C_GenerateKeyPair(session, &rsa, &modulus, 1, NULL, 0, &public, &private));
    len = sizeof bytes;
    OK(p11->C_SignInit(session, &sign, private));
    OK(p11->C_Sign(session, data, sizeof data, bytes, &len));
    OK(p11->C_VerifyInit(session, &sign, public));
    OK(p11->C_Verify(session, data, sizeof data, bytes, len));
    OK(p11->C_EncryptInit(session, &seal, public));
    OK(p11->C_Encrypt(session, data, sizeof data, bytes, &len));
    OK(p11->C_DecryptInit(session, &seal, private));
    OK(p11->C_Decrypt(session, bytes, len, opened, &opened_len));
    CHECK(opened_len == sizeof data && memcmp(data, opened, sizeof data) == 0);
    oaep.ulSourceDataLen = 4;
    OK(p11->C_DecryptInit(session, &seal, private));
    CHECK(p11->C_Decrypt(session, bytes, len, opened, &opened_len) != CKR_OK);

    /* Both sides of a key agreement get one value. */
    CK_OBJECT_HANDLE others[2];
    CK_OBJECT_CLASS secret = CKO_SECRET_KEY;
    CK_KEY_TYPE generic = CKK_GENERIC_SECRET;
    CK_ATTRIBUTE derived[] = {
        {CKA_CLASS, &secret, 4}, {CKA_KEY_TYPE, &generic, 4}, {CKA_VALUE_LEN, &value_len, 4}, {CKA_SENSITIVE, &no, 1},
        {CKA_EXTRACTABLE, &yes, 1},
    };
    generate(session, &others[0], &others[1]);
    for (int side = 0; side < 2; side++) {
        CK_ATTRIBUTE peer = {CKA_EC_POINT, point, sizeof point}, value = {CKA_VALUE, values[side], 32};
        OK(p11->C_GetAttributeValue(session, side ? p256_public : others[0], &peer, 1));
        CK_ECDH1_DERIVE_PARAMS agree = {CKD_SHA256_KDF, 6, (CK_BYTE *)"shared", peer.ulValueLen, point};
        CK_MECHANISM ecdh = {CKM_ECDH1_DERIVE, &agree, sizeof agree};
        OK(p11->C_DeriveKey(session, &ecdh, side ? others[1] : p256_private, derived, COUNT(derived), &keys[side]));
        OK(p11->C_GetAttributeValue(session, keys[side], &value, 1));
    }
    CHECK(memcmp(values[0], values[1], 32) == 0);
    OK(p11->C_DestroyObject(session, others[0]));
    OK(p11->C_DestroyObject(session, others[1]));

    /* The token writes handles and initialisation vectors to the struct that the parameter points to. */
    CK_BYTE randoms[64] = {1}, vectors[8] = {0};
    CK_ATTRIBUTE master[] = {
        {CKA_CLASS, &secret, 4}, {CKA_KEY_TYPE, &generic, 4}, {CKA_VALUE, randoms, 48}, {CKA_DERIVE, &yes, 1},
    };
    struct { CK_SSL3_KEY_MAT_OUT keys; CK_BYTE guard; } out = {{0, 0, 0, 0, vectors, vectors + 4}, 77};
    CK_TLS12_KEY_MAT_PARAMS tls = {256, 128, 32, CK_FALSE, {randoms, 32, randoms + 32, 32}, &out.keys, CKM_SHA256};
    CK_MECHANISM expand = {CKM_TLS12_KEY_AND_MAC_DERIVE, &tls, sizeof tls};
    OK(p11->C_CreateObject(session, master, COUNT(master), &base));
    OK(p11->C_DeriveKey(session, &expand, base, NULL, 0, NULL));
    CK_ATTRIBUTE kind = {CKA_CLASS, &secret, 4};
    OK(p11->C_GetAttributeValue(session, out.keys.hServerKey, &kind, 1));
    CHECK(out.keys.hClientMacSecret && out.keys.hServerMacSecret && out.keys.hClientKey != out.keys.hServerKey);
    CHECK(out.keys.pIVClient == vectors && memcmp(vectors, vectors + 4, 4) != 0 && out.guard == 77);
}

/* Writes a signature, its data and the public key, which `run` verifies. */
static void signature(CK_SESSION_HANDLE session, CK_OBJECT_HANDLE public, CK_OBJECT_HANDLE private) {
    CK_BYTE data[] = "signed on Windows", signature[64], info[256];
    CK_MECHANISM ecdsa = {CKM_ECDSA_SHA256, NULL, 0};
    CK_ULONG len = sizeof signature;
    CK_ATTRIBUTE key = {CKA_PUBLIC_KEY_INFO, info, sizeof info};
    OK(p11->C_GetAttributeValue(session, public, &key, 1));
    OK(p11->C_SignInit(session, &ecdsa, private));
    EXPECT(p11->C_Sign(session, data, 0xffffffff, signature, &len), CKR_ARGUMENTS_BAD);
    OK(p11->C_SignInit(session, &ecdsa, private));
    OK(p11->C_Sign(session, data, sizeof data, signature, &len));
    write_file("data", data, sizeof data);
    write_file("signature", signature, len);
    write_file("key.der", info, key.ulValueLen);
}

/* Lengths that no memory has, and lengths that are too long for a message. */
static void lengths(CK_SESSION_HANDLE session, CK_OBJECT_HANDLE private) {
    static CK_BYTE signature[64];
    CK_BYTE bytes[64] = {0};
    CK_ULONG count = sizeof signature, hostile[] = {0xffffffff, 0xfffffff0, 0x80000000, 0x10000000};
    CK_MECHANISM ecdsa = {CKM_ECDSA_SHA256, NULL, 0}, short_pss = {CKM_RSA_PKCS_PSS, bytes, 24};
    for (CK_ULONG at = 0; at < COUNT(hostile); at++) {
        OK(p11->C_SignInit(session, &ecdsa, private));
        /* An input that overlaps its output is copied first. This one ends before the image. */
        CHECK(p11->C_Sign(session, bytes, hostile[at], signature, &count) != CKR_OK);
        OK(p11->C_SessionCancel(session, CKF_SIGN));
        CHECK(p11->C_GenerateRandom(session, bytes, hostile[at]) != CKR_OK);
        CHECK(p11->C_SeedRandom(session, bytes, hostile[at]) != CKR_OK);
        CHECK(p11->C_SetPIN(session, bytes, hostile[at], bytes, hostile[at]) != CKR_OK);
        CHECK(p11->C_FindObjectsInit(session, (void *)bytes, hostile[at]) != CKR_OK);
        CHECK(p11->C_EncryptInit(session, &(CK_MECHANISM){CKM_AES_GCM, bytes, hostile[at]}, private) != CKR_OK);
    }
    CHECK(p11->C_SignInit(session, &short_pss, private) != CKR_OK);
    /* As long as the struct in messages: no pointer is there. */
    memset(bytes, 0x41, sizeof bytes);
    CHECK(p11->C_SignInit(session, &(CK_MECHANISM){CKM_AES_GMAC, bytes, 48}, private) != CKR_OK);
    EXPECT(p11->C_SignInit(session, &(CK_MECHANISM){CKM_HOTP, NULL, 0}, private), CKR_MECHANISM_PARAM_INVALID);
}

static CK_OBJECT_HANDLE shared;

static DWORD WINAPI thread(void *slot) {
    CK_MECHANISM ecdsa = {CKM_ECDSA_SHA256, NULL, 0};
    CK_SESSION_HANDLE session = open_session(*(CK_SLOT_ID *)slot);
    for (CK_ULONG round = 0; round < 50; round++) {
        CK_BYTE signature[64];
        CK_ULONG len = sizeof signature;
        OK(p11->C_SignInit(session, &ecdsa, shared));
        OK(p11->C_Sign(session, (CK_BYTE *)&round, sizeof round, signature, &len));
        CHECK(len == 64);
    }
    OK(p11->C_CloseSession(session));
    return 0;
}

static void threads(CK_SLOT_ID slot) {
    HANDLE all[8];
    for (int index = 0; index < 8; index++) all[index] = CreateThread(NULL, 0, thread, &slot, 0, NULL);
    CHECK(WaitForMultipleObjects(8, all, TRUE, 60000) == WAIT_OBJECT_0);
}

/* The agent ends between two calls: `run` kills it when there is a file `ready`, and then makes the file `killed`. */
static void dead(CK_SESSION_HANDLE session, CK_C_INITIALIZE_ARGS *arguments) {
    CK_MECHANISM ecdsa = {CKM_ECDSA_SHA256, NULL, 0};
    CK_BYTE signature[64];
    CK_ULONG len = sizeof signature;
    char path[1024];
    write_file("ready", "", 0);
    snprintf(path, sizeof path, "%s/killed", folder);
    while (GetFileAttributesA(path) == INVALID_FILE_ATTRIBUTES) Sleep(20);
    CK_RV outcome = p11->C_SignInit(session, &ecdsa, shared);
    if (outcome == CKR_OK) outcome = p11->C_Sign(session, signature, 32, signature, &len);
    EXPECT(outcome, CKR_DEVICE_ERROR);
    EXPECT(p11->C_SeedRandom(session, signature, 8), CKR_DEVICE_ERROR);
    OK(p11->C_CloseSession(session));
    OK(p11->C_Finalize(NULL));
    EXPECT(p11->C_Initialize(arguments), CKR_GENERAL_ERROR);
}

int main(int count, char **words) {
    CHECK(count == 4);
    folder = words[3];
    load(words[1]);
    exports();
    CK_C_INITIALIZE_ARGS arguments = {NULL, NULL, NULL, NULL, CKF_OS_LOCKING_OK, words[2]};
    OK(p11->C_Initialize(&arguments));
    EXPECT(p11->C_Initialize(&arguments), CKR_CRYPTOKI_ALREADY_INITIALIZED);
    CK_SLOT_ID slot = make_token();
    CK_SESSION_HANDLE session = open_session(slot);
    CK_OBJECT_HANDLE public;
    templates(session);
    generate(session, &public, &shared);
    signature(session, public, shared);
    parameters(session, public, shared);
    lengths(session, shared);
    threads(slot);
    nothing(slot);
    session = open_session(slot);
    OK(p11->C_Login(session, CKU_USER, USER, 8));
    dead(session, &arguments);
    puts("all checks passed");
    return 0;
}
