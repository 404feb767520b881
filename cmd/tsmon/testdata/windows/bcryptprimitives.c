// What Go asks of bcryptprimitives.dll and Debian's wine lacks: random bytes.
#include <windows.h>

BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T size) {
	return SystemFunction036(data, (ULONG)size);
}
