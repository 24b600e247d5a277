/* The client module on Windows with a hostile agent, odd configurations, and programs that end or unload it while their
 * threads run. `run` builds and starts it. The last word says what it does, and with which variables. */
#include "check.h"

static CK_RV code;

/* Memory for the results of a call. */
enum { ROOM = 4096, FILL = 0xa5 };
static CK_BYTE memory[ROOM + 64];

/* Calls a function. A call that fails writes nothing, and one that succeeds as many bytes as it says. */
#define WRITES(call, written) \
    do { \
        ULONGLONG start = GetTickCount64(); \
        memset(memory, FILL, sizeof memory); \
        code = (call); \
        CK_ULONG len = code == CKR_OK ? (written) : 0; \
        expect_at(__LINE__, #call " in time", GetTickCount64() - start < 20000, 1); \
        expect_at(__LINE__, #call " within its buffer", len <= ROOM && is_untouched(len), 1); \
        expect_at(__LINE__, #call " whole", len < 4 || !is_filled(len), 1); \
    } while (0)

static int is_filled(CK_ULONG len) {
    for (CK_ULONG at = 0; at < len; at++)
        if (memory[at] != FILL) return 0;
    return 1;
}

static int is_untouched(CK_ULONG from) {
    for (CK_ULONG at = from; at < sizeof memory; at++)
        if (memory[at] != FILL) return 0;
    return 1;
}

static CK_ULONG first(void) {
    CK_ULONG number;
    memcpy(&number, memory, sizeof number);
    return code == CKR_OK ? number : 0;
}

/* Attributes of every form, in buffers one behind the other. */
static void attributes(CK_SESSION_HANDLE session, CK_OBJECT_HANDLE key) {
    CK_ATTRIBUTE_TYPE types[] = {CKA_CLASS, CKA_LABEL, CKA_ALLOWED_MECHANISMS, CKA_WRAP_TEMPLATE, CKA_VALUE, CKA_ID};
    for (CK_ULONG at = 0; at < COUNT(types); at++) {
        CK_ATTRIBUTE one = {types[at], NULL, 0};
        CK_ATTRIBUTE nested[2] = {{CKA_CLASS, memory, 4}, {CKA_LABEL, memory + 8, 8}};
        p11->C_GetAttributeValue(session, key, &one, 1);
        int is_template = types[at] == CKA_WRAP_TEMPLATE;
        one = (CK_ATTRIBUTE){types[at], is_template ? (void *)nested : memory, is_template ? sizeof nested : 16};
        CK_ULONG room = one.ulValueLen;
        memset(memory, FILL, sizeof memory);
        code = p11->C_GetAttributeValue(session, key, &one, 1);
        CHECK(one.type == types[at] && (one.ulValueLen <= room || one.ulValueLen == CK_UNAVAILABLE_INFORMATION));
        CHECK(is_untouched(16));
        CHECK(nested[0].pValue == memory && nested[1].pValue == memory + 8);
        CHECK(nested[0].ulValueLen <= 4 || nested[0].ulValueLen == CK_UNAVAILABLE_INFORMATION);
    }
}

/* A message whose nonce and tag the token writes. */
static void messages(CK_SESSION_HANDLE session) {
    CK_ULONG len = 16, text_len = 16;
    CK_MECHANISM make = {CKM_AES_KEY_GEN, NULL, 0};
    CK_ATTRIBUTE template[] = {{CKA_VALUE_LEN, &len, 4}, {CKA_ENCRYPT, &yes, 1}};
    WRITES(p11->C_GenerateKey(session, &make, template, COUNT(template), (void *)memory), 4);
    CK_OBJECT_HANDLE key = first();
    CK_GCM_MESSAGE_PARAMS message = {memory, 12, 0, CKG_GENERATE, memory + 12, 128};
    CK_MECHANISM seal = {CKM_AES_GCM, &message, sizeof message};
    WRITES(p11->C_MessageEncryptInit(session, &seal, key), 0);
    if (code != CKR_OK) return;
    WRITES(p11->C_EncryptMessage(session, &message, sizeof message, NULL, 0, USER, 8, memory + 28, &text_len), 28 + text_len);
    CHECK(message.pIv == memory && message.ulIvLen == 12 && message.ulTagBits == 128);
}

/* The calls of a program that uses a key. None of them may harm it, whatever the agent answers. */
static void use(CK_C_INITIALIZE_ARGS *arguments) {
    CK_ULONG count = ROOM / 4;
    CK_MECHANISM ecdsa = {CKM_ECDSA_SHA256, NULL, 0}, digest = {CKM_SHA256, NULL, 0};
    CK_OBJECT_CLASS private = CKO_PRIVATE_KEY;
    CK_ATTRIBUTE search = {CKA_CLASS, &private, 4};
    WRITES(p11->C_Initialize(arguments), 0);
    if (code != CKR_OK) {
        EXPECT(code, CKR_GENERAL_ERROR);
        return;
    }
    WRITES(p11->C_GetInfo((void *)memory), sizeof(CK_INFO));
    WRITES(p11->C_GetSlotList(CK_TRUE, (void *)memory, &count), 4 * count);
    CK_SLOT_ID slot = count ? first() : 0;
    WRITES(p11->C_GetTokenInfo(slot, (void *)memory), sizeof(CK_TOKEN_INFO));
    count = ROOM / 4;
    WRITES(p11->C_GetMechanismList(slot, (void *)memory, &count), 4 * count);
    WRITES(p11->C_GetMechanismInfo(slot, CKM_ECDSA, (void *)memory), sizeof(CK_MECHANISM_INFO));
    WRITES(p11->C_OpenSession(slot, CKF_SERIAL_SESSION | CKF_RW_SESSION, NULL, NULL, (void *)memory), 4);
    CK_SESSION_HANDLE session = first();
    WRITES(p11->C_GetSessionInfo(session, (void *)memory), sizeof(CK_SESSION_INFO));
    WRITES(p11->C_Login(session, CKU_USER, USER, 8), 0);
    WRITES(p11->C_FindObjectsInit(session, &search, 1), 0);
    WRITES(p11->C_FindObjects(session, (void *)memory, ROOM / 4, &count), 4 * count);
    CK_OBJECT_HANDLE key = count ? first() : 0;
    WRITES(p11->C_FindObjectsFinal(session), 0);
    attributes(session, key);
    for (int round = 0; round < 2; round++) {
        count = ROOM;
        WRITES(p11->C_SignInit(session, &ecdsa, key), 0);
        WRITES(p11->C_Sign(session, USER, 8, memory, &count), count);
    }
    count = ROOM;
    WRITES(p11->C_DigestInit(session, &digest), 0);
    WRITES(p11->C_Digest(session, USER, 8, memory, &count), count);
    WRITES(p11->C_GenerateRandom(session, memory, 32), 32);
    messages(session);
    WRITES(p11->C_CloseSession(session), 0);
    OK(p11->C_Finalize(NULL));
}

/* A thread that signs until the module says that it has ended, or the program that it has. */
static volatile LONG signatures, stop;
static CK_SLOT_ID shared_slot;
static CK_OBJECT_HANDLE shared_key;

static DWORD WINAPI sign(void *list) {
    CK_FUNCTION_LIST_3_2 *functions = list;
    CK_MECHANISM ecdsa = {CKM_ECDSA_SHA256, NULL, 0};
    CK_SESSION_HANDLE session;
    CK_BYTE signature[64];
    CK_RV outcome = functions->C_OpenSession(shared_slot, CKF_SERIAL_SESSION, NULL, NULL, &session);
    while (outcome == CKR_OK && !stop) {
        CK_ULONG len = sizeof signature;
        outcome = functions->C_SignInit(session, &ecdsa, shared_key);
        if (outcome == CKR_OK) outcome = functions->C_Sign(session, USER, 8, signature, &len);
        if (outcome == CKR_OK) InterlockedIncrement(&signatures);
    }
    return outcome;
}

/* Initialises a module, logs in and finds the key. */
static void prepare(CK_C_INITIALIZE_ARGS *arguments) {
    CK_OBJECT_CLASS private = CKO_PRIVATE_KEY;
    CK_ATTRIBUTE search = {CKA_CLASS, &private, 4};
    CK_SLOT_ID slots[8];
    CK_ULONG count = COUNT(slots);
    CK_SESSION_HANDLE session;
    OK(p11->C_Initialize(arguments));
    OK(p11->C_GetSlotList(CK_TRUE, slots, &count));
    shared_slot = slots[0];
    OK(p11->C_OpenSession(shared_slot, CKF_SERIAL_SESSION, NULL, NULL, &session));
    OK(p11->C_Login(session, CKU_USER, USER, 8));
    OK(p11->C_FindObjectsInit(session, &search, 1));
    OK(p11->C_FindObjects(session, &shared_key, 1, &count));
    OK(p11->C_FindObjectsFinal(session));
    CHECK(count == 1);
}

static void start(HANDLE *all, CK_FUNCTION_LIST_3_2 *functions) {
    stop = signatures = 0;
    for (int index = 0; index < 8; index++) all[index] = CreateThread(NULL, 0, sign, functions, 0, NULL);
    while (signatures < 20) Sleep(1);
}

/* Waits for threads, whose last call returned one of two codes. */
static void join(HANDLE *all, CK_RV one, CK_RV other) {
    CHECK(WaitForMultipleObjects(8, all, TRUE, 60000) == WAIT_OBJECT_0);
    for (int index = 0; index < 8; index++) {
        DWORD outcome;
        CHECK(GetExitCodeThread(all[index], &outcome));
        if (outcome != one) EXPECT(outcome, other);
        CloseHandle(all[index]);
    }
}

static void threads(const char *copy, CK_C_INITIALIZE_ARGS *arguments) {
    HANDLE all[8];
    /* C_Finalize ends the calls that run. */
    prepare(arguments);
    start(all, p11);
    OK(p11->C_Finalize(NULL));
    join(all, CKR_CRYPTOKI_NOT_INITIALIZED, CKR_SESSION_HANDLE_INVALID);
    /* Two copies are two applications. */
    CK_FUNCTION_LIST_3_2 *kept = p11;
    prepare(arguments);
    HMODULE other = load(copy);
    CHECK(p11 != kept);
    EXPECT(p11->C_Finalize(NULL), CKR_CRYPTOKI_NOT_INITIALIZED);
    prepare(arguments);
    OK(kept->C_Finalize(NULL));
    start(all, p11);
    /* The program unloads the copy while its threads are in calls, and they go on. */
    CHECK(FreeLibrary(other));
    LONG before = signatures;
    while (signatures < before + 20) Sleep(1);
    stop = 1;
    join(all, CKR_OK, CKR_OK);
    OK(p11->C_Finalize(NULL));
    /* Threads that end leave nothing behind. */
    p11 = kept;
    prepare(arguments);
    DWORD handles[2];
    for (int round = 0; round < 20; round++) {
        start(all, p11);
        stop = 1;
        join(all, CKR_OK, CKR_OK);
        if (round == 0) CHECK(GetProcessHandleCount(GetCurrentProcess(), &handles[0]));
    }
    CHECK(GetProcessHandleCount(GetCurrentProcess(), &handles[1]));
    CHECK(handles[1] < handles[0] + 20);
    OK(p11->C_Finalize(NULL));
}

static CK_RV mutex(void *any) { return any ? CKR_OK : CKR_OK; }

/* Arguments of C_Initialize that the standard refuses. */
static void odd(void) {
    struct { char odd; CK_C_INITIALIZE_ARGS arguments; } unaligned = {0, {NULL, NULL, NULL, NULL, 0, (void *)1}};
    EXPECT(p11->C_Initialize(&unaligned.arguments), CKR_ARGUMENTS_BAD);
    CK_C_INITIALIZE_ARGS some = {NULL, mutex, NULL, NULL, 0, NULL}, all = {(void *)mutex, mutex, mutex, mutex, 0, NULL};
    EXPECT(p11->C_Initialize(&some), CKR_ARGUMENTS_BAD);
    EXPECT(p11->C_Initialize(&all), CKR_CANT_LOCK);
    char *endless = malloc(20000);
    memset(endless, 'a', 20000);
    CK_C_INITIALIZE_ARGS text = {NULL, NULL, NULL, NULL, 0, endless};
    EXPECT(p11->C_Initialize(&text), CKR_ARGUMENTS_BAD);
    endless[0] = (char)0xff, endless[1] = 0;
    EXPECT(p11->C_Initialize(&text), CKR_ARGUMENTS_BAD);
    EXPECT(p11->C_Finalize(endless), CKR_ARGUMENTS_BAD);
    EXPECT(p11->C_Finalize(NULL), CKR_CRYPTOKI_NOT_INITIALIZED);
}

int main(int count, char **words) {
    CHECK(count >= 4);
    for (int at = 4; at < count; at++) {
        char *value = strchr(words[at], '=');
        *value++ = 0;
        CHECK(SetEnvironmentVariableA(words[at], *value ? value : NULL));
    }
    load(words[1]);
    CK_C_INITIALIZE_ARGS arguments = {NULL, NULL, NULL, NULL, CKF_OS_LOCKING_OK, *words[2] ? words[2] : NULL};
    ULONGLONG start = GetTickCount64();
    if (is(words[3], "accepted")) {
        OK(p11->C_Initialize(&arguments));
        OK(p11->C_Finalize(NULL));
    } else if (is(words[3], "refused")) {
        EXPECT(p11->C_Initialize(&arguments), CKR_GENERAL_ERROR);
        CHECK(GetTickCount64() - start < 20000);
    } else if (is(words[3], "threads")) {
        odd();
        threads("copy.dll", &arguments);
    } else {
        for (int round = atoi(words[3]); round > 0; round--) use(&arguments);
        printf("%s rounds of lies\n", words[3]);
    }
    return 0;
}
