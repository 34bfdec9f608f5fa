// tmp
__declspec(dllexport) int winemend_version(void) { return 1; }
int __stdcall DllMain(void *m, unsigned r, void *x){(void)m;(void)r;(void)x;return 1;}
