/* bcryptprimitives.dll for wine 8 of Debian 12, which lacks it. Windows and newer versions of wine have it. */
#include <windows.h>

BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE bytes, SIZE_T len) { return SystemFunction036(bytes, (ULONG)len); }
